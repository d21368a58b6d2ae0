package ops

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// ActionKind is how an action is carried out.
type ActionKind string

// The kinds of actions.
const (
	ActionCommand  ActionKind = "command"  // the operator's own program
	ActionRestart  ActionKind = "restart"  // of a container or unit
	ActionStart    ActionKind = "start"    // of a container or unit
	ActionStop     ActionKind = "stop"     // of a container or unit
	ActionRedeploy ActionKind = "redeploy" // make the container again from a committed compose file
	ActionApply    ActionKind = "apply"    // bring the container to the state of a committed compose file
	ActionPush     ActionKind = "push"     // push a branch of a repository
)

// What an action counts as, beside its own name.
const (
	CountsRestart      = "restart"
	CountsRedeployment = "redeployment"
)

// ActionSpec is one action that the supervisor can do to a service.
type ActionSpec struct {
	Name        string        `json:"name"`
	Service     string        `json:"service"`
	Kind        ActionKind    `json:"kind"`
	Description string        `json:"description,omitempty"`
	Tier        Tier          `json:"tier"` // the lowest whose agents may ask for it
	Run         []string      `json:"run,omitempty"`
	Undo        []string      `json:"undo,omitempty"`
	Counts      string        `json:"counts"` // the cooldown it counts against
	Limit       CooldownLimit `json:"limit,omitzero"`
	Timeout     time.Duration `json:"timeout"`
	Approval    bool          `json:"approval,omitempty"` // a human must approve each run
	Container   string        `json:"container,omitempty"`
	Unit        string        `json:"unit,omitempty"`
	Compose     Compose       `json:"compose,omitzero"`
	Repo        string        `json:"repo,omitempty"`   // command, push: a folder of repos_dir
	Remote      string        `json:"remote,omitempty"` // push: where to
	Prefix      string        `json:"prefix,omitempty"` // push: of the branches
}

// Compose is a committed compose file and the service in it.
type Compose struct {
	Repo    string `json:"repo,omitempty"` // a folder of repos_dir
	File    string `json:"file,omitempty"` // in the repository
	Service string `json:"service,omitempty"`
	Project string `json:"project,omitempty"`
	EnvFile string `json:"env_file,omitempty"`
}

// Repository is the repository that the action reads, or empty.
func (a ActionSpec) Repository() string {
	switch a.Kind {
	case ActionRedeploy, ActionApply:
		return a.Compose.Repo
	case ActionCommand, ActionPush:
		return a.Repo
	case ActionRestart, ActionStart, ActionStop:
		return ""
	}
	return ""
}

// Undoable reports whether there is a way back.
func (a ActionSpec) Undoable() bool {
	return a.Kind == ActionStart || a.Kind == ActionStop || len(a.Undo) > 0
}

// Does says in one line what the action runs.
func (a ActionSpec) Does() string {
	what := a.Container
	if a.Unit != "" {
		what = a.Unit
	}
	switch a.Kind {
	case ActionCommand:
		if a.Repo != "" {
			return strings.Join(a.Run, " ") + " in a checkout of " + a.Repo
		}
		return strings.Join(a.Run, " ")
	case ActionRestart, ActionStart, ActionStop:
		if a.Unit != "" {
			return "systemctl " + string(a.Kind) + " " + what
		}
		return "docker " + string(a.Kind) + " " + what
	case ActionRedeploy:
		return "compose up --force-recreate " + a.Compose.Service + " from " + a.Compose.Repo + "/" + a.Compose.File
	case ActionApply:
		return "compose up " + a.Compose.Service + " from " + a.Compose.Repo + "/" + a.Compose.File
	case ActionPush:
		return "git push of a branch " + a.Prefix + "… of " + a.Repo + " to " + a.Remote
	}
	return string(a.Kind)
}

// WayBack says in one line how the action is undone, or that it cannot be.
func (a ActionSpec) WayBack() string {
	switch {
	case a.Kind == ActionStart:
		return "stop it again"
	case a.Kind == ActionStop:
		return "start it again"
	case len(a.Undo) > 0:
		return strings.Join(a.Undo, " ")
	}
	return "none"
}

// Digest identifies exactly what the action does. It changes with the configuration.
func (a ActionSpec) Digest() string {
	text, err := json.Marshal(a)
	if err != nil {
		return "" // texts and numbers always encode; an empty digest matches nothing
	}
	return Digest(text)
}

// Action finds an action of the inventory by the service's own name.
func (v Inventory) Action(service, name string) (ActionSpec, bool) {
	return v.Service(service).action(name)
}

func (s Service) action(name string) (ActionSpec, bool) {
	for _, a := range s.Actions {
		if a.Name == name {
			return a, true
		}
	}
	return ActionSpec{}, false
}

// Dependents are the services that cannot work without a service, directly or through others.
func (v Inventory) Dependents(service string) []string {
	seen := map[string]bool{service: true}
	var out []string
	for grown := true; grown; {
		grown = false
		for _, s := range v.Services {
			if seen[s.Name] {
				continue
			}
			for _, need := range s.DependsOn {
				if seen[need] {
					seen[s.Name], grown = true, true
					out = append(out, s.Name)
					break
				}
			}
		}
	}
	return out
}

// ActionStatus is how far a run of an action is.
type ActionStatus string

// The statuses of a run.
const (
	ActionRequested   ActionStatus = "requested" // by a person; nothing has been done
	ActionStarted     ActionStatus = "started"
	ActionDone        ActionStatus = "done"
	ActionFailed      ActionStatus = "failed"
	ActionUndone      ActionStatus = "undone"      // it was done, and undone later
	ActionInterrupted ActionStatus = "interrupted" // the supervisor ended meanwhile; it is never repeated
	ActionRefused     ActionStatus = "refused"     // the request of a person was not carried out
)

// Ended reports whether nothing more happens in the run itself.
func (s ActionStatus) Ended() bool { return s != ActionRequested && s != ActionStarted }

// ServiceHealth is what the probes of a service say together.
type ServiceHealth struct {
	Service string `json:"service"`
	Status  Health `json:"status"`
	Error   string `json:"error,omitempty"`
}

// ActionRun is one run of an action.
type ActionRun struct {
	ID          int64
	Environment string
	Service     string
	Action      string
	Kind        ActionKind
	Tier        Tier // of the session that asked, or of the action
	CycleID     *CycleID
	SessionID   *SessionID
	Person      string // who asked, where no session did
	Why         string
	ApprovalID  int64  // the approved plan that it belongs to; 0: none
	Step        int    // of the plan or the reflex, from 1
	Reflex      string // the key of the reflex that it belongs to; empty: none
	UndoOf      int64  // the run that this one undoes; 0: none
	Automatic   bool   // the supervisor decided it: an undo, a reflex, or a step of an approved plan
	Status      ActionStatus
	Does        string // what runs, in one line
	Digest      string // of the action as it was configured
	Branch      string // push
	Commit      string // of the repository that was read
	Version     string // the image of the container before
	Before      []ServiceHealth
	After       []ServiceHealth
	Output      string // redacted, its end
	Error       string
	Owner       string // the host that runs it
	Term        int64
	RequestedAt time.Time
	StartedAt   *time.Time
	EndedAt     *time.Time
	UndoneBy    int64 // the run that undid this one; 0: none
}

// By says who asked for the run.
func (r ActionRun) By() string {
	switch {
	case r.Person != "":
		return r.Person
	case r.Automatic:
		return "claudeops"
	case r.SessionID != nil:
		return "session"
	}
	return "unknown"
}

// Worse lists the services that are in a worse state after than before. A service that was not looked at before counts as healthy
// then.
func Worse(before, after []ServiceHealth) []string {
	rank := map[Health]int{Healthy: 0, Degraded: 1, Down: 2}
	was := map[string]int{}
	for _, b := range before {
		was[b.Service] = rank[b.Status]
	}
	var out []string
	for _, a := range after {
		if rank[a.Status] > was[a.Service] {
			out = append(out, a.Service)
		}
	}
	return out
}

// PlanStep is one action of a plan that an agent proposes.
type PlanStep struct {
	Service string `json:"service" report:"required,text"`
	Action  string `json:"action" report:"required,text"`
	Branch  string `json:"branch,omitempty" report:"optional"`
	Reason  string `json:"reason" report:"required,text"`
	Effect  string `json:"expected_effect" report:"required,text"`
	Back    string `json:"way_back" report:"required,text"`
}

// ApprovedStep is a step of a plan as a human sees and approves it: with what the supervisor will run.
type ApprovedStep struct {
	PlanStep
	Does    string `json:"does"`
	WayBack string `json:"undo"`
	Digest  string `json:"digest"` // of the action
}

// PlanHash identifies exactly what a human approves.
func PlanHash(cycle CycleID, session SessionID, steps []ApprovedStep) string {
	text, err := json.Marshal(struct {
		Cycle   CycleID
		Session SessionID
		Steps   []ApprovedStep
	}{cycle, session, steps})
	if err != nil {
		return ""
	}
	return Digest(text)
}

// LimitsFor chooses the limits of an action on a service: the service's own, or else the general ones.
func LimitsFor(limits []CooldownLimit, service, action string) []CooldownLimit {
	var own, general []CooldownLimit
	for _, l := range limits {
		switch {
		case l.Action != action:
		case l.Service == "":
			general = append(general, l)
		case l.Service == service:
			own = append(own, l)
		}
	}
	if len(own) > 0 {
		return own
	}
	return general
}

// AllCooldowns are the rate limits of the guard and those that actions have of their own.
func (p Policy) AllCooldowns() []CooldownLimit {
	out := slices.Clone(p.Cooldowns)
	for _, s := range p.Inventory.Services {
		for _, a := range s.Actions {
			if a.Limit.Action != "" {
				out = append(out, a.Limit)
			}
		}
	}
	return out
}
