// Package process finds and kills the processes of sessions: by their control group, by the key in their environment, and by who
// started them. The keeper needs it before the rest of the program is initialized, so it imports little.
package process

// KeyName is the variable that every process of a session carries.
const KeyName = "CLAUDEOPS_SESSION_KEY"
