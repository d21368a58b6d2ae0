package ops

import "time"

// ProbeSpec is one configured probe of a service.
type ProbeSpec struct {
	Service      string
	Type         string // http, tcp, command
	URL          string
	Method       string
	ExpectStatus []int  // empty: any 2xx or 3xx
	ExpectBody   string // substring
	Address      string
	Command      []string
	Timeout      time.Duration
	SlowAfter    time.Duration // slower than this is degraded; 0 = never
}

// PromptFiles are an operator's own prompts of a tier; empty means the built-in one.
type PromptFiles struct {
	Fresh      string // text of the prompt of a fresh or handoff start
	Escalation string // text of the prompt of a resumed one
}

// Environment is what is watched together, with its own state folder.
type Environment struct {
	Name     string
	StateDir string
	WorkDir  string // the agents' stable working folder, outside every repository
	ReposDir string
	Interval time.Duration
	Policy   Policy
	Tools    map[Tier]ToolLists
	Prompts  map[Tier]PromptFiles
	Limits   Limits
	Probes   []ProbeSpec
	AgentEnv []string
	Notes    string // the operator's own words about this environment, given to Tier 1
}

// HandoffPath is where an agent leaves its handoff.
func (e Environment) HandoffPath() string { return e.StateDir + "/handoff.json" }
