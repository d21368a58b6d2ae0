package ops

import (
	"slices"
	"time"
)

// Charge is what a chain works on. It is fixed by what starts the cycle, then by each decision that hands work on, and everything that
// follows is about it and nothing else: rights, approval, verification, blame, incidents and notices.
type Charge struct {
	// Services are those of a closed charge, by their own names.
	Services []string `json:"services,omitempty"`
	// Open is the charge of a look: everything that is found in trouble and that nothing holds.
	Open bool `json:"open,omitempty"`
}

// HoldKind is who or what holds a service.
type HoldKind string

// The kinds of holds.
const (
	HoldByNo           HoldKind = "no"           // a person said no to a tier, and the facts are the same
	HoldByTrust        HoldKind = "trust"        // watch holds every tier, suggest those that repair
	HoldByAcknowledged HoldKind = "acknowledged" // a person takes care of its incident
	HoldBySnooze       HoldKind = "snoozed"
	HoldByQuestion     HoldKind = "question" // another cycle asks a person about it
	HoldBySilence      HoldKind = "silence"
	HoldByWatch        HoldKind = "watch"     // maintenance, a failing dependency, flapping: what package health inhibits
	HoldByGone         HoldKind = "gone"      // it was taken out of the configuration
	HoldByCycle        HoldKind = "elsewhere" // another cycle that has not ended has it in its charge
	HoldByCall         HoldKind = "called"    // a person was called for it since this cycle was asked for
	HoldByAttack       HoldKind = "attack"    // agents at work on it attacked the supervisor twice within a day
)

// Hold keeps a service from a tier and those above it.
type Hold struct {
	Service string     `json:"service"`
	From    Tier       `json:"from"`
	By      HoldKind   `json:"by"`
	Why     string     `json:"why"`             // for people
	Until   *time.Time `json:"until,omitempty"` // nil: until somebody or something ends it
}

// Holds reports whether a tier may not work on a service.
func (h Hold) Holds(service string, t Tier) bool { return h.Service == service && t >= h.From }

// Holder is the first hold that keeps a service from a tier, or nil.
func Holder(holds []Hold, service string, t Tier) *Hold {
	if i := slices.IndexFunc(holds, func(h Hold) bool { return h.Holds(service, t) }); i >= 0 {
		return &holds[i]
	}
	return nil
}

// Free are the services that a tier may work on.
func Free(services []string, holds []Hold, t Tier) []string {
	return slices.DeleteFunc(slices.Clone(services), func(s string) bool { return Holder(holds, s, t) != nil })
}
