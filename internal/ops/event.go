package ops

import (
	"cmp"
	"strconv"
	"time"
)

// Event is something an operator may want to know: who did what to whom. Its text is for people: package notice makes it when the row is
// written, and nothing reads it back.
type Event struct {
	ID          int64
	At          time.Time
	Verb        Verb
	Actor       Actor   // the supervisor itself, unless somebody else is named
	Subject     Subject // what it is about; by default the session, the cycle or the service below
	Reason      string  // what the actor gave as the reason, or said
	Detail      Detail  // of the type that its verb has, or nil
	CycleID     *CycleID
	SessionID   *SessionID
	Environment string
	Level       Level
	Service     string
	Message     Rendered // of a row that was read
}

// Kind is what the event is about, in one word.
func (e Event) Kind() EventKind { return e.Verb.Kind() }

// About is what the event is about.
func (e Event) About() Subject {
	switch {
	case e.Subject != Subject{}:
		return e.Subject
	case e.SessionID != nil:
		return About(SubjectSession, *e.SessionID)
	case e.CycleID != nil:
		return About(SubjectCycle, *e.CycleID)
	case e.Service != "":
		return Subject{SubjectService, e.Service}
	}
	return Subject{}
}

// By is who did it.
func (e Event) By() Actor { return Actor{cmp.Or(e.Actor.Kind, ActorSupervisor), e.Actor.Name} }

// ActorKind is who does things.
type ActorKind string

// The kinds of actors.
const (
	ActorPerson     ActorKind = "person"
	ActorAgent      ActorKind = "agent"
	ActorSupervisor ActorKind = "supervisor"
)

// Actor is who did something.
type Actor struct {
	Kind ActorKind
	Name string // of a person, or the agent's session
}

// Person is the actor with a recorded name; the supervisor signs as one too.
func Person(name string) Actor {
	if name == Supervisor || name == "" {
		return Actor{Kind: ActorSupervisor}
	}
	return Actor{ActorPerson, name}
}

// SubjectKind is what an event can be about.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectAction   SubjectKind = "action"
	SubjectApproval SubjectKind = "approval"
	SubjectCycle    SubjectKind = "cycle"
	SubjectHost     SubjectKind = "host"
	SubjectIncident SubjectKind = "incident"
	SubjectMemory   SubjectKind = "memory"
	SubjectNotice   SubjectKind = "notice"
	SubjectReflex   SubjectKind = "reflex"
	SubjectService  SubjectKind = "service"
	SubjectSession  SubjectKind = "session"
	SubjectSilence  SubjectKind = "silence"
	SubjectToken    SubjectKind = "token"
	SubjectUpdate   SubjectKind = "update"
)

// Subject is what an event is about: a row by its number, or something by its name.
type Subject struct {
	Kind SubjectKind
	ID   string
}

// About is the subject with a number.
func About[T ~int64](kind SubjectKind, id T) Subject {
	return Subject{kind, strconv.FormatInt(int64(id), 10)}
}

// Rendered is a sentence for people, made when its row is written. Only what shows it to people turns it into a string again: whoever
// wants to know what happened reads the verb, the actor and the subject.
type Rendered struct{ text string }

// Render makes a sentence. Nothing in it is hidden or turned around, whoever said it.
func Render(text string) Rendered { return Rendered{Visible(text)} }

// Words are the sentence itself, for pages, the API, commands and notices.
func (r Rendered) Words() string { return r.text }

// MarshalText writes it into a row.
func (r Rendered) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// UnmarshalText reads it from a row.
func (r *Rendered) UnmarshalText(text []byte) error { r.text = string(text); return nil }
