package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Trust is how far the supervisor may go for a service without a person. Without a word nothing is limited, as with TrustFull.
type Trust string

// The levels, the lowest first.
const (
	TrustWatch   Trust = "watch"   // probes, incidents and notices; no agent starts
	TrustSuggest Trust = "suggest" // Tier 1 looks and proposes a plan
	TrustAsk     Trust = "ask"     // every repair after approval
	TrustRepair  Trust = "repair"  // Tier 3 after approval
	TrustFull    Trust = "full"
)

// TrustLevels are the levels, the lowest first.
func TrustLevels() []Trust {
	return []Trust{TrustWatch, TrustSuggest, TrustAsk, TrustRepair, TrustFull}
}

// ParseTrust reads the word for a level.
func ParseTrust(text string) (Trust, error) {
	t := Trust(strings.ToLower(strings.TrimSpace(text)))
	if !slices.Contains(TrustLevels(), t) {
		return "", fmt.Errorf("%q is not a level of trust: use watch, suggest, ask, repair or full", text)
	}
	return t, nil
}

// String is the word for the level, also where none was given.
func (t Trust) String() string { return string(TrustLevels()[t.rank()]) }

func (t Trust) rank() int {
	if n := slices.Index(TrustLevels(), t); n >= 0 {
		return n
	}
	return len(TrustLevels()) - 1
}

// Below reports whether the level is lower than another one.
func (t Trust) Below(other Trust) bool { return t.rank() < other.rank() }

// Under is the level as far as a ceiling allows it: the lower one of both.
func (t Trust) Under(ceiling Trust) Trust {
	if t == "" || ceiling.Below(t) {
		return ceiling
	}
	return t
}

// Forbids reports whether a tier may not work on the service at all.
func (t Trust) Forbids(tier Tier) bool {
	return t.Below(TrustSuggest) || t.Below(TrustAsk) && tier > Tier1
}

// Keeps says what the level keeps agents from.
func (t Trust) Keeps() string {
	if t == TrustWatch {
		return "its trust is watch, so no agent looks at it"
	}
	return fmt.Sprintf("its trust is %s, so agents look and propose, and change nothing", t)
}

// Asks reports whether a person has to agree before a tier works on the service.
func (t Trust) Asks(tier Tier) bool {
	return t == TrustAsk && tier > Tier1 || t == TrustRepair && tier > Tier2
}

// Next is the level above this one; full has none.
func (t Trust) Next() (Trust, bool) {
	n := t.rank() + 1
	if n == len(TrustLevels()) {
		return "", false
	}
	return TrustLevels()[n], true
}

// Reduced is the level after a repair went wrong: one step lower, but never below ask. Otherwise a hostile text in a log could switch
// repairs off.
func (t Trust) Reduced() Trust {
	if !TrustAsk.Below(t) && t != "" {
		return t
	}
	return TrustLevels()[t.rank()-1]
}

// Lowered is a level of trust in a service below the one that the configuration allows.
type Lowered struct {
	Environment string
	Service     string
	Level       Trust
	By          string // a person, or Supervisor
	Reason      string
	At          time.Time
}

// Reduced is a service that is trusted one step less, because something went wrong. Once in a cycle is enough.
type Reduced struct {
	Service string
	Why     string
}

// TrustOf is the highest level that the configuration allows for a service.
func (p Policy) TrustOf(service string) Trust {
	name, _ := p.Inventory.Canonical(service)
	return cmp.Or(p.Inventory.Service(name).Trust, p.Trust)
}

// Trusts is the level that holds for a service: what the configuration allows, or what was lowered beside it.
func (p Policy) Trusts(service string, lowered []Lowered) Trust {
	name, _ := p.Inventory.Canonical(service)
	trust := p.TrustOf(name)
	for _, l := range lowered {
		if l.Service == name {
			trust = l.Level.Under(trust)
		}
	}
	return trust
}

// Distrusts reports whether a level of trust was given for any service.
func (p Policy) Distrusts(lowered []Lowered) bool {
	return p.Trust != "" || len(lowered) > 0 || slices.ContainsFunc(p.Inventory.Services, func(s Service) bool { return s.Trust != "" })
}

// TrustRecord is what became of the work on a service.
type TrustRecord struct {
	Proposed int // repairs that people were asked about, or that the level left to them
	Approved int
	Proven   int // of the approved ones, those that were verified
	Verified int // cycles in which something was done, and somebody but the agent confirmed that it helped
	Undone   int // actions that were undone, other than those that people asked for
	Refuted  int // cycles with a repair that a probe refuted, or that did not hold
}
