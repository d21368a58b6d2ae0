package ops

import (
	"slices"
	"strings"
	"time"
)

// Observe is who looks at an environment on schedule.
type Observe string

// The ways to observe.
const (
	ObserveAgent  Observe = "agent"  // Tier 1 at every tick; probes are facts for it
	ObserveProbes Observe = "probes" // probes all the time; an agent only for what they find
	ObserveBoth   Observe = "both"   // probes all the time, and Tier 1 at every tick
)

// Watch is how the probes and alerts of an environment turn into cycles. Zero values mean the defaults of package health.
type Watch struct {
	Grouping         Grouping
	Flapping         Flapping
	TolerateDegraded bool
	Maintenance      []Maintenance
	SettleMax        time.Duration // no service may take longer to answer after a start
}

// Grouping says which failures start one cycle together, and when the next one may start.
type Grouping struct {
	Window time.Duration // how long a cause waits for others to join it
	Grace  time.Duration // how long a service may take to follow a dependency that recovered
	Pause  time.Duration // between two cycles for a service that fails again
	Repeat time.Duration // after which a service that is still bad starts another cycle; 0: never
}

// Flapping says when a check turns too often to be believed.
type Flapping struct {
	Turns  int
	Window time.Duration
	Calm   time.Duration
}

// Maintenance is a time in which what fails starts nothing: one span, or one that comes again.
type Maintenance struct {
	Name     string
	Service  string // patterns, in which * stands for any text; empty: all
	Group    string
	Probe    string
	From     time.Time
	Until    time.Time
	Schedule string // such as `sun 02:00`, or the five fields of cron
	Length   time.Duration
	Zone     string // such as Europe/Berlin; empty: UTC
}

// AlertStatus is whether what an alert tells of goes on.
type AlertStatus string

// The statuses of an alert.
const (
	AlertFiring   AlertStatus = "firing"
	AlertResolved AlertStatus = "resolved"
)

// Alert is something another system told us. There is one per environment and fingerprint, however often it is told.
type Alert struct {
	ID          int64
	Environment string
	Source      string // alertmanager, grafana or generic
	Fingerprint string
	Status      AlertStatus
	Level       Level
	Name        string
	Service     string // as the alert calls it, or by the inventory's own name
	Summary     string
	Labels      map[string]string
	URL         string
	StartsAt    time.Time
	EndsAt      *time.Time
	Count       int // how often it was told
	FirstAt     time.Time
	LastAt      time.Time
	Seq         int64 // raised every time it is told
	Pending     bool  // nobody has looked at it since it was told last
}

// Silence is a person's wish that certain checks and alerts start nothing for a while. Patterns may hold *; an empty one
// matches everything.
type Silence struct {
	ID          int64
	Environment string
	Service     string
	Group       string
	Probe       string
	Labels      map[string]string // of alerts; a silence with labels matches alerts only
	Reason      string
	Author      string
	CreatedAt   time.Time
	From        time.Time
	Until       time.Time
}

// Active reports whether the silence holds at a time.
func (s Silence) Active(now time.Time) bool { return !now.Before(s.From) && now.Before(s.Until) }

// Withheld is a bad service for which no agent is started now.
type Withheld struct {
	Service string
	Why     string // flapping, silenced, maintenance, covered, dependency, recent, waiting or unsettled
	Reason  string // one sentence
	Until   time.Time
}

// Cause is one thing that failed, for which one cycle was started or taken.
type Cause struct {
	ID          int64
	Key         string // the same as long as the cause is the same
	Environment string
	Group       string
	Services    []string // those that failed of themselves
	Affected    []string // those that fail because they depend on them
	Level       Health
	Reason      string // one sentence
	Began       time.Time
	At          time.Time // when the cycle was started
	Cycle       CycleID
	ResolvedAt  *time.Time
}

// NoticeRoute sends certain notices to targets of their own. The first route that matches counts.
type NoticeRoute struct {
	Name        string
	Level       Level        // the lowest that matches; empty: any
	Services    []string     // patterns; empty: any, also none
	Kinds       []NoticeKind // opened, needs_human …; empty: any that is told unasked
	Environment string
	URLs        []string // Apprise URLs; empty: nobody is told
}

// NoticeKind is what a notice tells.
type NoticeKind string

// The kinds of notices. Escalated is sent only where a route asks for it: people hear when a problem opens and how it ends, and
// every step between would tell them twice.
const (
	NoticeOpened     NoticeKind = "opened"
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
	NoticeTest       NoticeKind = "test"
)

// NoticeKinds are the kinds of notices that a route can name.
func NoticeKinds() []NoticeKind {
	return []NoticeKind{
		NoticeOpened, NoticeEscalated, NoticeApproval, NoticeReview, NoticeNeedsHuman, NoticeBlocked, NoticeFailed, NoticePartial,
		NoticeLeftDown, NoticeBudget, NoticeBrake, NoticeReminder, NoticeResolved, NoticeDeadman,
	}
}

// Takes reports whether a route is for notices of a kind.
func (r NoticeRoute) Takes(kind NoticeKind) bool {
	return slices.Contains(r.Kinds, kind) || (len(r.Kinds) == 0 && kind != NoticeEscalated)
}

// Matches reports whether a name matches a pattern in which * stands for any text; an empty pattern matches everything. Names
// hold slashes and brackets, so only the star is special.
func Matches(pattern, name string) bool {
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
