package ops

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Detail is what an event tells beside who did what to whom, and why: one type for each family of verbs, JSON in the row.
type Detail any

// ActionDetail is an action of the supervisor; without a name: every action.
type ActionDetail struct {
	Action string       `json:"action,omitempty"`
	UndoOf int64        `json:"undo_of,omitempty"` // the action that it undoes
	Status ActionStatus `json:"status,omitempty"`  // how it ended
	Step   int          `json:"step,omitempty"`    // of a plan
	Reflex bool         `json:"reflex,omitempty"`  // a reflex does it
	Worse  []string     `json:"worse,omitempty"`   // services that got worse
	Undoes bool         `json:"undoes,omitempty"`  // its undo follows
}

// ApprovalDetail is a question to people and its answer.
type ApprovalDetail struct {
	Kind    ApprovalKind   `json:"kind"`
	Tier    Tier           `json:"tier"`
	Handler string         `json:"handler"`
	Status  ApprovalStatus `json:"status"`
	Until   *time.Time     `json:"until,omitempty"` // how long a no lasts
	Facts   []Fact         `json:"facts,omitempty"` // what a no is about
}

// ClockDetail is how far a host's clock is ahead of the database's.
type ClockDetail struct {
	AheadMS int64 `json:"ahead_ms"`
}

// CommitDetail is a commit of a repository for actions.
type CommitDetail struct {
	Repo   string `json:"repo"`
	Commit string `json:"commit"`
}

// DeadmanDetail is since when no cycle has ended, and how often one is due.
type DeadmanDetail struct {
	Since        time.Time `json:"since"`
	EverySeconds int64     `json:"every_seconds"`
}

// IncidentDetail is an incident as it was then.
type IncidentDetail struct {
	Title string     `json:"title"`
	Until *time.Time `json:"until,omitempty"` // how long it is put off
	Left  string     `json:"left,omitempty"`  // what keeps it open
}

// MemoryDetail is a lesson, or the beginning of a long one.
type MemoryDetail struct {
	Observation string `json:"observation"`
	Removed     bool   `json:"removed,omitempty"`
}

// NoticeDetail is a notice that was not delivered.
type NoticeDetail struct {
	Title    string `json:"title"`
	Attempts int    `json:"attempts"`
	Again    bool   `json:"again,omitempty"` // it is tried again
}

// ProbeDetail is what a probe found.
type ProbeDetail struct {
	Probe     string `json:"probe,omitempty"`
	Status    Health `json:"status,omitempty"`
	DependsOn string `json:"depends_on,omitempty"` // the service that it waits for
}

// ReflexDetail is a reflex and where it stands.
type ReflexDetail struct {
	Does  string      `json:"does"`
	State ReflexState `json:"state"`
}

// ReplyDetail is an answer by phone or link.
type ReplyDetail struct {
	Channel  string `json:"channel"`
	Decision string `json:"decision,omitempty"`
	Kind     string `json:"kind,omitempty"` // what it answers
	ID       int64  `json:"id,omitempty"`
	Plan     string `json:"plan,omitempty"` // the beginning of its hash
}

// RequestDetail is what somebody did, and from where.
type RequestDetail struct {
	Did    string `json:"did,omitempty"`
	From   string `json:"from,omitempty"` // an address, or the sender of alerts
	Failed bool   `json:"failed,omitempty"`
}

// SessionDetail is what a session left behind.
type SessionDetail struct {
	Tier   Tier     `json:"tier,omitempty"`
	Killed int      `json:"killed,omitempty"` // its processes that were still there
	Down   []string `json:"down,omitempty"`   // what it took down and did not bring up again
}

// SilenceDetail is what is silenced; without an end: no longer.
type SilenceDetail struct {
	Service string     `json:"service,omitempty"`
	Group   string     `json:"group,omitempty"`
	Probe   string     `json:"probe,omitempty"`
	Labels  int        `json:"labels,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
}

// TokenDetail is what a token may do, and how long.
type TokenDetail struct {
	Role  string     `json:"role"`
	Until *time.Time `json:"until,omitempty"`
}

// TrustDetail is how far a service was trusted to agents before, and now.
type TrustDetail struct {
	From Trust `json:"from"`
	To   Trust `json:"to"`
}

// UpdateDetail is where an update stands.
type UpdateDetail struct {
	To    string      `json:"to,omitempty"`
	Phase UpdatePhase `json:"phase,omitempty"`
}

// WallDetail is what was refused, or cannot be seen from inside walls.
type WallDetail struct {
	What  string `json:"what"`            // an address, a path, a tool or a door of the supervisor
	Input string `json:"input,omitempty"` // of the tool
	Call  string `json:"call,omitempty"`  // the id of the call of the tool
	User  string `json:"user,omitempty"`  // of the process at the door
}

// WatchDetail is how many more changes there were at the same time.
type WatchDetail struct {
	More int `json:"more"`
}

// Written is the detail of an event as JSON.
func (e Event) Written() (string, error) {
	of := e.Verb.Detail()
	switch {
	case e.Detail == nil:
		return "", nil
	case reflect.TypeOf(e.Detail) != reflect.TypeOf(of):
		return "", fmt.Errorf("write detail of %s: it is a %T, and the verb has %T", e.Verb, e.Detail, of)
	}
	text, err := json.Marshal(e.Detail)
	return string(text), err
}

// Read makes the detail of a verb from its JSON; a verb without facts of its own has none.
func (v Verb) Read(text []byte) (Detail, error) {
	of := v.Detail()
	if of == nil || len(text) == 0 {
		return nil, nil
	}
	read := reflect.New(reflect.TypeOf(of))
	if err := json.Unmarshal(text, read.Interface()); err != nil {
		return nil, fmt.Errorf("read detail of %s: %w", v, err)
	}
	return read.Elem().Interface(), nil
}
