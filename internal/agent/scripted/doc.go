// Package scripted is an agent without a model. It speaks the stream-json protocol of Claude Code, takes the same
// flags, and really runs its commands, but what it says and does is written in a scenario file. The demo and the tests
// use it, so that a whole chain can be watched without a key, a network or another program than /bin/sh.
package scripted
