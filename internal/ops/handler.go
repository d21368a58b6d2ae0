package ops

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Handler is a registered owner of work.
type Handler struct {
	ID          string   `json:"id"`
	GoodFor     string   `json:"good_for,omitempty"` // which problems it should get
	Tier        Tier     `json:"tier"`
	Family      string   `json:"family"`
	Agent       string   `json:"agent"`
	Model       string   `json:"model"`
	Permissions Tier     `json:"permissions,omitempty"` // the tier whose guard and tools apply; 0 means its own
	Command     []string `json:"command,omitempty"`     // agent command: the program and its arguments
	Prompt      string   `json:"prompt,omitempty"`      // the operator's own prompt in place of the tier's
	Limits      Limits   `json:"limits,omitzero"`       // what is zero is the environment's
	BudgetUSD   float64  `json:"budget_usd,omitempty"`  // of one session; 0 means what chain and day have left
	HandsTo     []string `json:"hands_to,omitempty"`
	// Fallback names the handlers that take over this handler's work, with its permissions, when it cannot do it.
	Fallback []string `json:"fallback,omitempty"`
	// Unwalled is which of the walls that it needs above Tier 1 does not stand where it runs.
	Unwalled string `json:"unwalled,omitempty"`
}

// AgentHuman is the agent of a handler that is a person: nothing is started, somebody is told.
const AgentHuman = "human"

// Human reports whether the handler is a person.
func (h Handler) Human() bool { return h.Agent == AgentHuman }

// May is the tier whose guard and tools apply to the handler.
func (h Handler) May() Tier {
	return cmp.Or(h.Permissions, h.Tier)
}

// Lacks is which wall does not stand that the handler needs, so that a person is asked before it starts; empty if all do.
func (h Handler) Lacks() string {
	if h.May() <= Tier1 || h.Human() {
		return ""
	}
	return h.Unwalled
}

// Independence is how far a target must be from the handlers that worked before it.
type Independence string

// The degrees of independence.
const (
	IndependenceNone    Independence = "none"
	IndependenceHandler Independence = "other_handler"
	IndependenceFamily  Independence = "other_family"
)

// Route says what holds between two handlers where that differs from the policy.
type Route struct {
	From         string       `json:"from"`
	To           string       `json:"to"`
	Mode         ContextMode  `json:"mode,omitempty"` // how context travels
	Independence Independence `json:"independence,omitempty"`
	Approval     bool         `json:"approval,omitempty"` // a human must agree before the target starts
}

// DefaultWindow is the context window of a model nobody told us anything about.
const DefaultWindow = 200_000

// Service is one entry of the inventory: what is watched, under all its names.
type Service struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases,omitempty"`
	Probed  bool     `json:"probed,omitempty"`
	// Group is what it fails together with, DependsOn what it cannot work without.
	Group     string   `json:"group,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	// Settle is how long it may take to work after a start; 0 means as long as its last starts took.
	Settle time.Duration `json:"settle,omitempty"`
	// Container and Unit are what it runs in; a service has at most one of them.
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	// Methods are the HTTP methods of sessions above Tier 1 on its addresses; none means GET and HEAD.
	Methods []string `json:"methods,omitempty"`
	// Queries are what agents may ask its database.
	Queries []Query `json:"queries,omitempty"`
	// Headers are those of HTTP requests that sessions may send to it beside the usual ones.
	Headers []string `json:"headers,omitempty"`
	// Actions are what the supervisor can do to it.
	Actions []ActionSpec `json:"actions,omitempty"`
	// Reflexes are the repairs that the supervisor does without an agent.
	Reflexes []Reflex `json:"reflexes,omitempty"`
	// Off are the built-in actions that the operator removed. Agents may not do the same with a command either.
	Off []string `json:"off,omitempty"`
	// Trust is the highest level for it; empty: that of the environment.
	Trust Trust `json:"trust,omitempty"`
	// Updates is how it gets newer images.
	Updates Updates `json:"updates,omitzero"`
	// Gone: it was taken out of the configuration after the cycle had started. Nothing may be done to it.
	Gone bool `json:"gone,omitempty"`
}

// Query is a question to a database that the operator wrote. Agents name it and give the values of its parameters.
type Query struct {
	Name string `json:"name"`
	// Run is one SQL statement, or the words of a Redis command. A parameter is :name, in a Redis command as a whole word.
	Run    []string          `json:"run"`
	Params map[string]string `json:"params,omitempty"` // integer or text
}

// The types of parameters.
const (
	ParamInteger = "integer"
	ParamText    = "text"
)

// SQL tells a statement from a Redis command, whose first word has no spaces.
func (q Query) SQL() bool { return len(q.Run) == 1 && strings.ContainsFunc(q.Run[0], unicode.IsSpace) }

// Through reports a type of probe that it can be run through.
func (q Query) Through(probe string) bool {
	return !q.SQL() && probe == "redis" || q.SQL() && (probe == "postgres" || probe == "mysql")
}

// sqlParts finds parameters and what may be taken for one or for the end of a statement: quoted text, comments, casts.
var sqlParts = Pattern(`'(?:[^']|'')*'|"[^"]*"|` + "`[^`]*`" + `|--[^\n]*|/\*(?s:.*?)\*/|\$\$(?s:.*?)\$\$|::|:[a-zA-Z_]\w*|[;'"` + "`]")

// Bind replaces every parameter.
func (q Query) Bind(value func(name string) string) (run []string, err error) {
	run = slices.Clone(q.Run)
	if !q.SQL() {
		for i, word := range run {
			if i > 0 && len(word) > 1 && word[0] == ':' {
				run[i] = value(word[1:])
			}
		}
		return run, nil
	}
	run[0] = sqlParts().ReplaceAllStringFunc(strings.TrimRight(run[0], "; \t\r\n"), func(part string) string {
		switch {
		case part == ";":
			err = errors.New("it holds more than one statement")
		case len(part) == 1:
			err = errors.New("a quote is not closed")
		case part[0] == ':' && part != "::":
			return value(part[1:])
		}
		return part
	})
	return run, err
}

// QueryForms are the queries of services as agents ask for them: "db order id=INTEGER".
func QueryForms(services []Service) (out []string) {
	for _, s := range services {
		for _, q := range s.Queries {
			form := s.Name + " " + q.Name
			for _, name := range slices.Sorted(maps.Keys(q.Params)) {
				form += " " + name + "=" + strings.ToUpper(q.Params[name])
			}
			out = append(out, form)
		}
	}
	return out
}

// Inventory maps any name of a service to its canonical one.
type Inventory struct {
	Services []Service `json:"services,omitempty"`
	Strict   bool      `json:"strict,omitempty"`
}

// Canonical returns the service's own name for a name or an alias, and whether it is known.
func (v Inventory) Canonical(name string) (string, bool) {
	for _, s := range v.Services {
		if s.Name == name || slices.Contains(s.Aliases, name) {
			return s.Name, true
		}
	}
	return name, false
}

// Service is the entry with that name of its own; empty if there is none.
func (v Inventory) Service(name string) Service {
	for _, s := range v.Services {
		if s.Name == name {
			return s
		}
	}
	return Service{}
}

// Policy is what decides in a cycle. It is stored with the cycle when it starts, and only becomes stricter after.
type Policy struct {
	DryRun   bool        `json:"dry_run"`
	MaxTier  Tier        `json:"max_tier"`
	Trust    Trust       `json:"trust,omitempty"` // the highest level for every service that has none of its own
	MaxDepth int         `json:"max_depth"`
	Mode     ContextMode `json:"mode"` // resume or handoff: how context travels, and with it how a session reports
	Routes   []Route     `json:"routes,omitempty"`
	// Windows are the context windows of models by their configured name; what a CLI reports wins.
	Windows          map[string]int64 `json:"windows,omitempty"`
	ContextThreshold float64          `json:"context_threshold"`
	ApprovalTier     Tier             `json:"approval_tier"`
	BudgetChainUSD   float64          `json:"budget_chain_usd"`
	BudgetDayUSD     float64          `json:"budget_day_usd"`
	Approval         ApprovalPolicy   `json:"approval"`
	Recovery         RecoveryPolicy   `json:"recovery"`
	Independence     Independence     `json:"independence,omitempty"` // of every route that says nothing else
	Process          ProcessMode      `json:"process,omitempty"`
	Manager          string           `json:"manager,omitempty"`   // the handler that chooses among permitted targets
	Planner          string           `json:"planner,omitempty"`   // the handler that plans anew when an approach failed
	Judge            string           `json:"judge,omitempty"`     // the handler that scores a claimed repair
	Cooldowns        []CooldownLimit  `json:"cooldowns,omitempty"` // how often what may be done to a service; empty without the guard
	// Observe is who looks on schedule; empty means an agent. An agent also looks when none has for ObserveEvery; 0 means never.
	Observe      Observe       `json:"observe,omitempty"`
	ObserveEvery time.Duration `json:"observe_every,omitempty"`
	// TellEscalated: a route of notices asks to hear of every handover to the next handler.
	TellEscalated bool      `json:"tell_escalated,omitempty"`
	Entry         string    `json:"entry"` // the handler that starts every cycle
	Handlers      []Handler `json:"handlers"`
	Inventory     Inventory `json:"inventory"`
	// Watch says how the probes of the environment are judged, so that a cycle judges its own probes in the same way.
	Watch Watch `json:"watch,omitzero"`
}

// Unprobed names the services that no probe asks about, where probes decide when an agent looks. Where agents look on schedule, there
// are none.
func (p Policy) Unprobed() []string {
	if p.Observe != ObserveProbes {
		return nil
	}
	var out []string
	for _, s := range p.Inventory.Services {
		if !s.Probed {
			out = append(out, s.Name)
		}
	}
	return out
}

// RolesOf are the special roles of a handler.
func (p Policy) RolesOf(id string) []string {
	out := []string{}
	for _, r := range []struct{ name, id string }{{"entry", p.Entry}, {"manager", p.Manager}, {"planner", p.Planner}, {"judge", p.Judge}} {
		if r.id == id {
			out = append(out, r.name)
		}
	}
	if slices.ContainsFunc(p.Handlers, func(h Handler) bool { return slices.Contains(h.Fallback, id) }) {
		out = append(out, "fallback")
	}
	return out
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

// Asks reports whether a person is asked before a handler takes over from another, whatever the trust in its services.
func (p Policy) Asks(from string, to Handler) bool {
	return !to.Human() && (to.Lacks() != "" || p.ApprovalTier > 0 && to.Tier >= p.ApprovalTier || p.RouteOf(from, to.ID).Approval)
}

// RouteOf is what holds between two handlers. The entry handler comes from nobody.
func (p Policy) RouteOf(from, to string) Route {
	out := Route{From: from, To: to, Mode: p.Mode, Independence: p.Independence}
	for _, r := range p.Routes {
		if r.From != from || r.To != to {
			continue
		}
		if r.Mode != "" {
			out.Mode = r.Mode
		}
		if r.Independence != "" {
			out.Independence = r.Independence
		}
		out.Approval = out.Approval || r.Approval
	}
	return out
}

// ModeOf is how context travels from one handler to another.
func (p Policy) ModeOf(from, to string) ContextMode { return p.RouteOf(from, to).Mode }

// Narrow applies the options of one cycle. The stricter of both holds.
func (p Policy) Narrow(o CycleOptions) Policy {
	p.DryRun = p.DryRun || o.DryRun
	if o.MaxTier > 0 && o.MaxTier < p.MaxTier {
		p.MaxTier = o.MaxTier
	}
	return p
}

// Stricter is what holds when a cycle goes on: the policy it started with, narrowed by what the operator says by now.
func (p Policy) Stricter(now Policy) Policy {
	p = p.Narrow(CycleOptions{DryRun: now.DryRun, MaxTier: now.MaxTier})
	p.BudgetChainUSD = least(p.BudgetChainUSD, now.BudgetChainUSD)
	p.BudgetDayUSD = least(p.BudgetDayUSD, now.BudgetDayUSD)
	if now.ApprovalTier > 0 && (p.ApprovalTier == 0 || now.ApprovalTier < p.ApprovalTier) {
		p.ApprovalTier = now.ApprovalTier
	}
	p = p.Behind(now)
	p.MaxDepth = min(p.MaxDepth, now.MaxDepth)
	p.Inventory = p.Inventory.sameReflexes(now.Inventory)
	known := make(map[string]Service, len(now.Inventory.Services))
	for _, s := range now.Inventory.Services {
		known[s.Name] = s
	}
	services := slices.Clone(p.Inventory.Services)
	for i, s := range services {
		o, configured := known[s.Name]
		services[i].Gone = !configured
		services[i].Trust = cmp.Or(s.Trust, p.Trust).Under(cmp.Or(o.Trust, now.Trust))
		services[i].Probed = s.Probed && o.Probed
	}
	p.Inventory.Services, p.Trust = services, p.Trust.Under(now.Trust)
	return p
}

// Behind notes the walls that handlers lack under another policy.
func (p Policy) Behind(o Policy) Policy {
	p.Handlers = slices.Clone(p.Handlers)
	for i, h := range p.Handlers {
		other, _ := o.Handler(h.ID)
		p.Handlers[i].Unwalled = cmp.Or(other.Unwalled, h.Unwalled)
	}
	return p
}

// least is the smaller of two limits of which 0 means none.
func least(a, b float64) float64 {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
