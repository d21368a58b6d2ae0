package ops

import "time"

// Canary is what the trial of a version of an agent CLI showed: whether it asks before it runs a tool.
type Canary struct {
	Host     string
	Profile  string
	Version  string
	Settings string // identifies the command and the settings that it was tried with
	Program  string // its path
	Model    string
	Passed   bool
	Detail   string
	CostUSD  *float64 // of the trial; nil when it was not told
	At       time.Time
}
