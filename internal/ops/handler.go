package ops

// Handler is a registered owner of work.
type Handler struct {
	ID      string   `json:"id"`
	Tier    Tier     `json:"tier"`
	Family  string   `json:"family"`
	Agent   string   `json:"agent"`
	Model   string   `json:"model"`
	HandsTo []string `json:"hands_to,omitempty"`
}

// Route says how context travels between two handlers, where that differs from the policy's mode.
type Route struct {
	From string      `json:"from"`
	To   string      `json:"to"`
	Mode ContextMode `json:"mode"`
}

// DefaultWindow is the context window of a model nobody told us anything about.
const DefaultWindow = 200_000

// Service is one entry of the inventory: what is watched, under all its names.
type Service struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Probed  bool     `json:"probed,omitempty"`
}

// Inventory maps any name of a service to its canonical one.
type Inventory struct {
	Services []Service `json:"services,omitempty"`
	Strict   bool      `json:"strict,omitempty"`
}

// Canonical returns the service's own name for a name or an alias, and whether it is known.
func (v Inventory) Canonical(name string) (string, bool) {
	for _, s := range v.Services {
		if s.Name == name {
			return s.Name, true
		}
		for _, a := range s.Aliases {
			if a == name {
				return s.Name, true
			}
		}
	}
	return name, false
}

// Policy is what decides in a cycle. It is stored with the cycle when it starts and never changes after.
type Policy struct {
	DryRun   bool        `json:"dry_run"`
	MaxTier  Tier        `json:"max_tier"`
	MaxDepth int         `json:"max_depth"`
	Mode     ContextMode `json:"mode"` // resume or handoff: how context travels, and with it how a session reports
	Routes   []Route     `json:"routes,omitempty"`
	// Windows are the context windows of models by their configured name; what a CLI reports wins.
	Windows          map[string]int64 `json:"windows,omitempty"`
	ContextThreshold float64          `json:"context_threshold"`
	ApprovalTier     Tier             `json:"approval_tier"`
	BudgetChainUSD   float64          `json:"budget_chain_usd"`
	BudgetDayUSD     float64          `json:"budget_day_usd"`
	Recovery         bool             `json:"recovery"`
	Cooldowns        []CooldownLimit  `json:"cooldowns,omitempty"` // how often what may be done to a service; empty without the guard
	Entry            string           `json:"entry"`               // the handler that starts every cycle
	Handlers         []Handler        `json:"handlers"`
	Inventory        Inventory        `json:"inventory"`
}

// Handler returns the registered handler with that id.
func (p Policy) Handler(id string) (Handler, bool) {
	for _, h := range p.Handlers {
		if h.ID == id {
			return h, true
		}
	}
	return Handler{}, false
}

// ModeOf is how context travels from one handler to another. The entry handler comes from nobody.
func (p Policy) ModeOf(from, to string) ContextMode {
	for _, r := range p.Routes {
		if r.From == from && r.To == to {
			return r.Mode
		}
	}
	return p.Mode
}

// Narrow applies the options of one cycle. The stricter of both holds.
func (p Policy) Narrow(o CycleOptions) Policy {
	p.DryRun = p.DryRun || o.DryRun
	if o.MaxTier > 0 && o.MaxTier < p.MaxTier {
		p.MaxTier = o.MaxTier
	}
	return p
}
