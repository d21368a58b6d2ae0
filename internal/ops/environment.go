package ops

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ProbeSpec is one configured probe of a service. Which fields count depends on its type.
type ProbeSpec struct {
	Service string
	Name    string // shown instead of a description made from the other fields
	Type    string // http, dns, container, postgres, mysql, redis, tcp, systemd, command, heartbeat, engine

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
	Container string // name or id

	// database
	Password string // instead of one in URL
	Query    string // SQL, or a Redis command; empty: SELECT 1, or PING

	// Expect holds, for dns, values that must all be among the answers and, for a database, what the first value may be.
	Expect []string

	// service
	Address string // tcp
	Unit    string // systemd
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

// Host is one supervisor among those that share a database.
type Host struct {
	Name         string
	Identity     string // of its state folder: two machines of one name are told apart by it
	Version      string
	Labels       []string
	Environments []string // those it works for
	Draining     bool     // it takes no new work
	Term         int64
	RegisteredAt time.Time
	SeenAt       *time.Time // its last sign of life, by the database's clock
	ExpiresAt    *time.Time // the end of its lease; nil while it holds none
	Alive        bool       // its lease had not ended when this was read
	Running      int        // cycles that it advances now
	// ClockAhead is how far its clock was ahead of the database's when it last renewed its lease.
	ClockAhead time.Duration
}

// MaxClockSkew is how far a host's clock may differ from the database's before people are told.
const MaxClockSkew = 2 * time.Second

// ClockDifference says how far a clock is from another: "3s ahead of" or "3s behind".
func ClockDifference(ahead time.Duration) string {
	if ahead < 0 {
		return ahead.Abs().Round(100*time.Millisecond).String() + " behind"
	}
	return ahead.Round(100*time.Millisecond).String() + " ahead of"
}

// ClockWrong reports whether the host's clock differs from the database's by more than that.
func (h Host) ClockWrong() bool { return h.ClockAhead.Abs() > MaxClockSkew }

// Reaped is a host whose lease ended, and what others continue for it.
type Reaped struct {
	Host   string
	Cycles []CycleID
}

// Labelled reports whether a host with the labels may work for an environment that asks for some: it must have all of them.
func Labelled(asked, has []string) bool {
	return !slices.ContainsFunc(asked, func(label string) bool { return !slices.Contains(has, label) })
}

// Notes is what a repository tells agents about itself, in the newest commit that no agent made.
type Notes struct {
	Repository string
	Commit     string
	Text       string
}

// IsMetadata reports whether a host is a link-local address, or the metadata service of a cloud, which gives out credentials.
func IsMetadata(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLinkLocalUnicast() || ip == netip.MustParseAddr("fd00:ec2::254") || ip == netip.MustParseAddr("100.100.100.200")
	}
	return slices.Contains([]string{
		"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal", "metadata.azure.com", "metadata.azure.internal",
	}, strings.ToLower(strings.TrimSuffix(host, ".")))
}

// targetForm is a URL as Apprise reads it: a scheme, and something that begins a name.
var targetForm = Pattern(`^[a-zA-Z][a-zA-Z0-9]*://[^\s\pC/?#][^\s\pC]*$`)

// IsTarget reports whether a text can be the URL of a target of notices.
func IsTarget(text string) bool {
	return targetForm().MatchString(text) && !strings.HasPrefix(strings.ToLower(text), "file:")
}
