package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// UpdatePhase is how far an update of a service has come. It is written before what it names is done.
type UpdatePhase string

// The phases of an update.
const (
	UpdateWaiting    UpdatePhase = "waiting" // for a person, who asks for it to say yes
	UpdateAsked      UpdatePhase = "asked"
	UpdatePulling    UpdatePhase = "pulling"
	UpdateTagged     UpdatePhase = "tagged" // the new image is here, and the old one is kept
	UpdateRecreating UpdatePhase = "recreating"
	UpdateWatching   UpdatePhase = "watching"
	UpdateGoingBack  UpdatePhase = "going_back"

	UpdateKept      UpdatePhase = "kept"
	UpdateGoneBack  UpdatePhase = "gone_back"
	UpdateStuck     UpdatePhase = "stuck"     // neither image works: a person is asked
	UpdateUnchanged UpdatePhase = "unchanged" // there is nothing newer
	UpdateRefused   UpdatePhase = "refused"
)

// Ended reports whether nothing more is done.
func (p UpdatePhase) Ended() bool {
	return slices.Contains([]UpdatePhase{UpdateKept, UpdateGoneBack, UpdateStuck, UpdateUnchanged, UpdateRefused}, p)
}

// Runs reports whether a host is at it.
func (p UpdatePhase) Runs() bool {
	return slices.Contains([]UpdatePhase{UpdatePulling, UpdateTagged, UpdateRecreating, UpdateWatching, UpdateGoingBack}, p)
}

// String is the phase in words.
func (p UpdatePhase) String() string { return Spaced(p) }

// UpdateWatch is how long an update is watched where nothing else is configured: what does not come up shows within minutes, and what
// fails later is an outage like any other.
const UpdateWatch = 10 * time.Minute

// Updates is how a service is updated.
type Updates struct {
	Schedule string        `json:"schedule,omitempty"` // such as `sun 04:00`, in UTC; empty: only when a person asks
	Watch    time.Duration `json:"watch,omitempty"`    // 0: UpdateWatch
}

// Image is what a container was made from.
type Image struct {
	Ref    string `json:"ref"`              // as it was named
	Digest string `json:"digest,omitempty"` // in its registry; empty: it has none
	ID     string `json:"id"`
}

// String names the image so that a person can tell two of them apart.
func (i Image) String() string {
	name, _, _ := strings.Cut(i.Ref, "@")
	if i.Digest == "" {
		return name
	}
	return fmt.Sprintf("%s (%.19s)", name, i.Digest)
}

// Update is one change of a service to another image.
type Update struct {
	ID          int64
	Environment string
	Service     string
	Phase       UpdatePhase
	To          string     // the image that somebody named; empty: the newest of the same tag
	Person      string     // who asked; empty: the schedule
	Slot        *time.Time // of the schedule
	Before      Image
	After       Image
	Kept        string          // the tag that keeps the old image
	Touches     []string        // the service, and those that depend on it
	States      []ServiceHealth // before
	Result      string
	Owner       string // the host that has the container; empty: none has begun
	AskedAt     time.Time
	PhaseAt     time.Time
	EndedAt     *time.Time
}

// Words names the update in a sentence.
func (u Update) Words() string { return fmt.Sprintf("update %d of %s", u.ID, u.Service) }

// Version is what was last seen of the image of a service.
type Version struct {
	Environment string
	Service     string
	Image       Image
	Newest      string // the digest of the same tag in the registry; empty: not known
	Unknown     string // why it is not
	At          time.Time
}

// Update returns how a service is updated. Why says why it cannot be.
func (v Inventory) Update(service string) (spec ActionSpec, why string) {
	s := v.Service(service)
	if s.Name == "" {
		return ActionSpec{}, "it is not configured"
	}
	return s.Update()
}

// Watched is how long an update of a service is watched.
func (v Inventory) Watched(service string) time.Duration {
	return cmp.Or(v.Service(service).Updates.Watch, UpdateWatch)
}

// Redeployed says how its containers are made again, which no agent does by a command.
func (s Service) Redeployed() string {
	spec, known := s.action(string(ActionRedeploy))
	switch {
	case known && spec.Kind == ActionRedeploy:
		return "the supervisor's action redeploy of " + s.Name + " makes its container again"
	case slices.Contains(s.Off, string(ActionRedeploy)):
		return "the operator has turned the action redeploy of " + s.Name + " off"
	}
	return s.Name + " has no action redeploy: the operator can add `compose: {repo: …, file: …}` to the service"
}

// Update returns how the service is updated: by its compose action. Why says why it cannot be.
func (s Service) Update() (spec ActionSpec, why string) {
	spec, known := s.action(string(ActionRedeploy))
	switch {
	case !known && len(s.Off) > 0:
		why = "its action redeploy is off"
	case !known || spec.Kind != ActionRedeploy:
		why = "it has no compose file: add `compose: {repo: …, file: …}` to the service"
	case !s.Probed:
		why = "it has no probe, so nothing could be watched: add one to the service"
	}
	return spec, why
}
