package ops

import "time"

// ProbeSpec is one configured probe of a service. Which fields count depends on its type.
type ProbeSpec struct {
	Service string
	Name    string // shown instead of a description made from the other fields
	Type    string // http, dns, container, postgres, mysql, redis, tcp, systemd, process, command, heartbeat

	// http
	URL          string // http, and the databases: where they are
	Method       string
	Headers      map[string]string
	Body         string
	ExpectStatus []int    // empty: any 2xx or 3xx
	ExpectBody   string   // substring
	ExpectRegexp string   // regular expression (RE2) the body must match
	ExpectJSON   []string // conditions like `$.status == "ok"`, all of which must hold
	CertDays     int      // a certificate that ends within so many days is degraded; 0 = not looked at
	InsecureTLS  bool     // http and redis: take any certificate, for services that sign their own

	// dns
	Host   string // the name to look up
	Record string // A, AAAA, CNAME, MX, TXT, NS or SRV; empty: A
	Server string // host:port of the name server; empty: the machine's own

	// container
	Container   string // name or id
	Socket      string // unix socket of the Docker or Podman API; empty: the prober's own
	MaxRestarts int    // more restarts than this within ten minutes is degraded

	// database
	Password string // instead of one in URL
	Query    string // SQL, or a Redis command; empty: SELECT 1, or PING

	// Expect holds, for dns, values that must all be among the answers and, for a database, what the first value may be.
	Expect []string

	// service
	Address string // tcp
	Unit    string // systemd
	Process string // name of a running program
	Command []string

	// heartbeat
	Every    time.Duration // how often the job runs, or
	Schedule string        // when: `sun 02:00`, or the five fields of cron
	Zone     string        // of the schedule, such as Europe/Berlin; empty: UTC
	Grace    time.Duration // how late it may be, and how long a run may take

	Timeout      time.Duration
	SlowAfter    time.Duration // slower than this is degraded; 0 = never
	Interval     time.Duration // how often the scheduler runs it; 0 = its default
	FailAfter    int           // bad results in a row that count as failing; 0 = the default
	RecoverAfter int           // good results in a row that count as recovered; 0 = the default
}

// PromptFiles are an operator's own prompts of a tier; empty means the built-in one.
type PromptFiles struct {
	Fresh      string // text of the prompt of a fresh or handoff start
	Escalation string // text of the prompt of a resumed one
}

// Environment is what is watched together, with its own state folder.
type Environment struct {
	Name      string
	Labels    []string // what a host needs to work for it
	StateDir  string
	WorkDir   string // the agents' stable working folder, outside every repository
	ReposDir  string
	Interval  time.Duration
	Policy    Policy
	Tools     map[Tier]ToolLists
	Prompts   map[Tier]PromptFiles
	Limits    Limits
	Probes    []ProbeSpec
	Watch     Watch
	AgentEnv  []string
	Protected Protected
	Notes     string // the operator's own words about this environment, given to Tier 1
}

// Protected is what agents are told about the guard's limits.
type Protected struct {
	Files   []string // infrastructure files that no tier may change
	Volumes []string // folders of data in which no tier may delete
	Hosts   []string // reachable by ssh
}

// HandoffPath is where an agent leaves its handoff.
func (e Environment) HandoffPath() string { return e.StateDir + "/handoff.json" }
