package ops

import (
	"slices"
	"strings"
	"time"
)

// Observe says whether an agent, probes or both check an environment on schedule.
type Observe string

// The ways to observe.
const (
	ObserveAgent  Observe = "agent"  // Tier 1 at every tick; probes are facts for it
	ObserveProbes Observe = "probes" // probes all the time; an agent only for what they find
	ObserveBoth   Observe = "both"   // probes all the time, and Tier 1 at every tick
)

// Watch is how the probes and alerts of an environment turn into cycles. Zero values mean the defaults of package health.
type Watch struct {
	Grouping    Grouping      `json:"grouping,omitzero"`
	Flapping    Flapping      `json:"flapping,omitzero"`
	Maintenance []Maintenance `json:"maintenance,omitempty"`
}

// Grouping says which failures start one cycle together, and when the next one may start.
type Grouping struct {
	Window time.Duration `json:"window,omitempty"` // how long a cause waits for others to join it
	Grace  time.Duration `json:"grace,omitempty"`  // how long a service may take to follow a dependency that recovered
	Pause  time.Duration `json:"pause,omitempty"`  // between two cycles for a service that fails again
	Repeat time.Duration `json:"repeat,omitempty"` // after which a service that is still bad starts another cycle; 0: never
}

// Flapping says when a check counts as flapping: Turns changes between good and bad within Window, until there was none for Calm.
// Zero values mean the defaults.
type Flapping struct {
	Turns  int           `json:"turns,omitempty"` // negative: never
	Window time.Duration `json:"window,omitempty"`
	Calm   time.Duration `json:"calm,omitempty"`
}

// Maintenance is a time in which failures start no cycle: one span of time, or a recurring one.
type Maintenance struct {
	Name     string        `json:"name,omitempty"`
	Service  string        `json:"service,omitempty"` // a pattern, see MatchPattern; Group too
	Group    string        `json:"group,omitempty"`
	From     time.Time     `json:"from,omitzero"`
	Until    time.Time     `json:"until,omitzero"`
	Schedule string        `json:"schedule,omitempty"` // such as `sun 02:00`, or the five fields of cron
	Length   time.Duration `json:"length,omitempty"`
	Zone     string        `json:"zone,omitempty"` // such as Europe/Berlin; empty: UTC
}

// AlertStatus says whether an alert is still firing.
type AlertStatus string

// The statuses of an alert.
const (
	AlertFiring   AlertStatus = "firing"
	AlertResolved AlertStatus = "resolved"
)

// Alert is a problem that another system reported. There is one per environment and fingerprint, however often it is sent.
type Alert struct {
	ID          int64
	Environment string
	Source      string // alertmanager, grafana, generic, a program that is known by what it sends, or a configured sender
	Fingerprint string
	Status      AlertStatus
	Level       Level
	Name        string
	Service     string // the name in the alert, or the inventory's own name
	Summary     string
	Labels      map[string]string
	URL         string
	StartsAt    time.Time
	EndsAt      *time.Time
	Count       int // how often it was received
	FirstAt     time.Time
	LastAt      time.Time
	Seq         int64 // increases each time it is received
	Pending     bool  // it was received and not processed yet

	Content   string    // identifies its severity, labels and values: another one is news
	ChangedAt time.Time // when these last changed, or when it began to fire
	// Disputes is how often people were told that it fires on although its cycle has ended, and DisputedAt when they first were.
	Disputes   int
	DisputedAt *time.Time
}

// Probe names an alert among the checks of its service.
func (a Alert) Probe() string {
	return AlertProbe + a.Name + " " + a.Fingerprint[:min(8, len(a.Fingerprint))]
}

// AlertSender is a program that sends alerts, with an address and ids of its own.
type AlertSender struct {
	Name   string
	Form   string // alertmanager, grafana or generic
	Secret string // part of its address; empty: it signs its requests or sends the token
}

// Dispute is what people are told of alerts that fire on although their cycle has ended.
type Dispute struct {
	Cycle       CycleID
	Environment string
	Alerts      []Alert // as they were read
	Told        []int   // how often people were told of each, this time included
	Notice      Notice
	Report      *IncidentReport // nil: nobody is called yet
	Event       string
}

// SignedAlerts are the alerts of one signed request.
type SignedAlerts struct {
	Alerts    []Alert
	Signature string    // identifies the request
	Expires   time.Time // when the signature is no longer valid
}

// Silence keeps certain checks and alerts from starting cycles for a while. Service, Group and Probe are patterns, see MatchPattern.
type Silence struct {
	ID          int64
	Environment string
	Service     string
	Group       string
	Probe       string
	Labels      map[string]string // of alerts; a silence with labels matches alerts only
	Reason      string
	Author      string
	Incident    int64 // the incident that it stands for; 0 for a silence of its own
	Approval    int64 // the no to an agent that it stands for; 0 for a silence of its own
	CreatedAt   time.Time
	From        time.Time
	Until       time.Time
}

// Matches is what the silence covers, for its events: its end when it begins, none when it is ended.
func (s Silence) Matches(until *time.Time) SilenceDetail {
	return SilenceDetail{Service: s.Service, Group: s.Group, Probe: s.Probe, Labels: len(s.Labels), Until: until}
}

// Active reports whether the silence holds at a time.
func (s Silence) Active(now time.Time) bool { return !now.Before(s.From) && now.Before(s.Until) }

// Covers reports whether the silence is about a check of a service. A silence with labels is about alerts only.
func (s Silence) Covers(environment, service, group, probe string) bool {
	return len(s.Labels) == 0 && (s.Environment == "" || s.Environment == environment) &&
		MatchPattern(s.Service, service) && MatchPattern(s.Group, group) && MatchPattern(s.Probe, probe)
}

// Covers reports whether the maintenance is about a service.
func (m Maintenance) Covers(service, group string) bool {
	return MatchPattern(m.Service, service) && MatchPattern(m.Group, group)
}

// MatchPattern reports whether a name matches a pattern in which * stands for any text. An empty pattern matches everything. Names
// contain slashes and brackets, so only the star is special.
func MatchPattern(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// HoldReason is why a bad service starts no cycle now.
type HoldReason string

// The reasons to hold a service back. Package health says when each applies.
const (
	HoldFlapping    HoldReason = "flapping"
	HoldSilenced    HoldReason = "silenced"
	HoldPerson      HoldReason = "person" // somebody has taken its incident over, put it off, or is asked about it
	HoldMaintenance HoldReason = "maintenance"
	HoldCovered     HoldReason = "covered"    // a cycle was started for it
	HoldDependency  HoldReason = "dependency" // something it needs is bad
	HoldRecent      HoldReason = "recent"     // it failed again shortly after its last cycle
	HoldWaiting     HoldReason = "waiting"    // other services may fail for the same cause
	HoldUnsettled   HoldReason = "unsettled"  // too few checks failed yet
)

// Inhibits reports whether the reason keeps every tier from working on the service. The other reasons only keep the watch from
// starting one more cycle.
func (r HoldReason) Inhibits() bool {
	// Without HoldPerson: the decision sees the incidents themselves, and who said what last.
	return slices.Contains([]HoldReason{HoldFlapping, HoldSilenced, HoldMaintenance, HoldDependency}, r)
}

// Withheld is a bad service that starts no cycle now.
type Withheld struct {
	Service string
	Why     HoldReason
	Reason  string    // one sentence
	Until   time.Time // when this ends by itself; zero: when something changes
	Cycle   CycleID   // covered: the cycle that was started for it, unless something it needs is bad; it is not stored
}

// Cause is one problem, for which one cycle was started or an earlier one is used.
type Cause struct {
	ID          int64
	Key         string // stays the same as long as the problem lasts
	Environment string
	Group       string
	Services    []string // those that failed themselves
	Affected    []string // those that fail because they depend on them
	Level       Health
	Reason      string // one sentence
	Began       time.Time
	At          time.Time // when the cycle was started
	Cycle       CycleID
	Takes       bool     // its cycle has not ended and handed nothing on, so that more services may join it
	Handed      []string // what its cycle handed on last
	ResolvedAt  *time.Time
}

// NoticeRoute sends certain notices to targets of their own. The first route that matches counts.
type NoticeRoute struct {
	Name     string
	Level    Level        // the lowest that matches; empty: any
	Services []string     // patterns; empty: any, also none
	Kinds    []NoticeKind // opened, needs_human …; empty: any but escalated
	URLs     []string     // empty: nobody is told
	Default  bool         // the targets are those of notices without a route
	Quiet    *QuietHours  // nil: none
}

// QuietHours is a time of the day at which notices that are not urgent wait.
type QuietHours struct {
	From, To time.Duration // since midnight; From may be later than To
	Zone     *time.Location
}

// NoticeKind is what a notice is about.
type NoticeKind string

// The kinds of notices. Escalated is sent only where a route names it: people are told when a problem opens and how it ends, and a
// notice for every step between would be too much.
const (
	NoticeOpened     NoticeKind = "opened"
	NoticeAlert      NoticeKind = "alert" // it fires on although its cycle has ended
	NoticeAction     NoticeKind = "action"
	NoticeEscalated  NoticeKind = "escalated"
	NoticeApproval   NoticeKind = "approval"
	NoticeReview     NoticeKind = "review"
	NoticeNeedsHuman NoticeKind = "needs_human"
	NoticeBlocked    NoticeKind = "blocked"
	NoticeFailed     NoticeKind = "failed"
	NoticePartial    NoticeKind = "partial"
	NoticeLeftDown   NoticeKind = "left_down"
	NoticeBudget     NoticeKind = "budget"
	NoticeBrake      NoticeKind = "brake"
	NoticeReminder   NoticeKind = "reminder"
	NoticeResolved   NoticeKind = "resolved"
	NoticeDeadman    NoticeKind = "deadman"
	NoticeHost       NoticeKind = "host"
	NoticeTrust      NoticeKind = "trust"
	NoticeTest       NoticeKind = "test"
)

// AsksPeople reports whether a notice of this kind waits for a person to decide.
func (k NoticeKind) AsksPeople() bool { return k == NoticeApproval || k == NoticeReview }

// NoticeKinds are the kinds of notices that a route can name.
func NoticeKinds() []NoticeKind {
	return []NoticeKind{
		NoticeOpened, NoticeAlert, NoticeEscalated, NoticeApproval, NoticeReview, NoticeNeedsHuman, NoticeBlocked, NoticeFailed, NoticePartial,
		NoticeLeftDown, NoticeAction, NoticeBudget, NoticeBrake, NoticeReminder, NoticeResolved, NoticeDeadman, NoticeTrust,
	}
}

// Takes reports whether a route is for notices of a kind.
func (r NoticeRoute) Takes(kind NoticeKind) bool {
	return slices.Contains(r.Kinds, kind) || (len(r.Kinds) == 0 && kind != NoticeEscalated)
}

// EngineService is the service that stands for the container engine of an environment whose probes look at containers. It is watched and
// repaired as any other: its incident is the one of an engine that no longer answers.
const EngineService = "container-engine"

// ProbeEngine is the type of the probe of EngineService. The configuration cannot name it.
const ProbeEngine = "engine"

// ProbeHeartbeat is the type of probes that wait for a job to call, instead of asking a service.
const ProbeHeartbeat = "heartbeat"

// Heartbeat is what is known of the calls that a probe of this type waits for.
type Heartbeat struct {
	Environment string
	Service     string
	Probe       string
	Since       time.Time  // when it was first configured, or its address was made
	Addressed   bool       // it has an address that a job can call
	StartedAt   *time.Time // of a run that has not ended
	EndedAt     *time.Time // of the last run
	Failed      bool       // how that ended
	Exit        int        // its exit code, if it failed with one
	Output      string     // what it said, without secrets
	Seq         int64      // grows with each change in an environment
}

// Ping is one call of a job.
type Ping struct {
	Start  bool // it begins; otherwise it has ended
	Failed bool
	Exit   int
	Output string
	At     time.Time
}

// LateMark begins the error of a heartbeat that is late and not yet missed.
const LateMark = "late: "

// Bad reports whether a check finds that a service does not work well enough.
func (c Check) Bad() bool { return c.Status == Down || c.Status == Degraded && !c.Late() }

// Known reports whether a check has found out how its service is.
func (c Check) Known() bool { return c.Status != Unknown }

// Late reports whether a check found nothing but a heartbeat that is late. People see it, but nothing is started for it: the job still
// has its grace.
func (c Check) Late() bool {
	return c.Status == Degraded && c.Type == CheckService && c.Purpose != ProbeAlert && strings.HasPrefix(c.Error, LateMark)
}

// CheckState is what is known about one check. It is plain data: store it, and a restart forgets nothing.
type CheckState struct {
	Service string    `json:"service"`
	Probe   string    `json:"probe"`
	Level   Health    `json:"level"` // what it settled on; empty: not known yet
	Since   time.Time `json:"since"` // when it settled on it
	Began   time.Time `json:"began"` // the first bad result of the failure that is going on, or zero
	Last    Check     `json:"last"`  // the last one that found something out
	// Unknown is the last result, where it found nothing out. It changes nothing else: what was known stays known.
	Unknown Check `json:"unknown,omitzero"`
	// Recovered is when it last became healthy after a failure, or zero.
	Recovered time.Time `json:"recovered"`

	Good    int `json:"good"`     // good results in a row
	Bad     int `json:"bad"`      // results in a row that were not good
	Downs   int `json:"downs"`    // results in a row that were down
	NotDown int `json:"not_down"` // results in a row that were not down

	// FailAfter and RecoverAfter are the thresholds of the last result; zero means the defaults.
	FailAfter    int `json:"fail_after,omitempty"`
	RecoverAfter int `json:"recover_after,omitempty"`

	Flapping bool          `json:"flapping"`
	Calm     time.Duration `json:"calm"`            // how long it must be stable to end flapping
	Changed  []time.Time   `json:"turns,omitempty"` // when it last changed between good and bad
	// Flapped is the first of the changes that made it flap, or zero while it does not.
	Flapped  time.Time `json:"flapped,omitzero"`
	Notified bool      `json:"told,omitempty"`   // people were told that it flaps
	Target   string    `json:"target,omitempty"` // what its probe looks at
	// Replaced: a probe of another target found the failure that is going on or has just ended.
	Replaced bool `json:"replaced,omitempty"`

	Lately Lately `json:"lately,omitzero"`
}

// Lately is what went wrong within the Lookback, in a row or not. It begins again when the check recovers, when its service is restarted
// by the supervisor or an agent, and when the watch starts.
type Lately struct {
	From     time.Time   `json:"from,omitzero"`      // when it last began again
	Checks   int         `json:"checks,omitempty"`   // results since then; not counted further than leastChecks
	Failures []time.Time `json:"failures,omitempty"` // the last ones; bad results in a row are one
	Restarts []time.Time `json:"restarts,omitempty"` // the last ones of its container
	// Unsteady is why the check settled on degraded although too few bad results came in a row; empty: it did not.
	Unsteady string `json:"unsteady,omitempty"`
	Status   Health `json:"status,omitempty"` // of the last bad result; down after a restart
}

// Newest is the last result, whether it found something out or not.
func (s CheckState) Newest() Check {
	if s.Unknown.Status != "" {
		return s.Unknown
	}
	return s.Last
}

// Failing reports whether the check settled on a bad level.
func (s CheckState) Failing() bool { return s.Level == Degraded || s.Level == Down }

// Unsettled reports whether the last result was bad and too few were to count as failing.
func (s CheckState) Unsettled() bool { return !s.Failing() && s.Bad > 0 }

// Finding is the last result. For a check that is degraded by what went wrong lately, whose last result may be good, it says that.
func (s CheckState) Finding(status Health) Check {
	found := s.Last
	if s.Lately.Unsteady != "" && s.Level == Degraded {
		found.Status, found.Error = status, s.Lately.Unsteady
	}
	return found
}

// Seen is what the watch knows about an environment.
type Seen struct {
	States   []CheckState
	Causes   []Cause
	Silences []Silence // also those that have just ended
	Firing   []Alert
}
