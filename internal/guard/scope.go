package guard

import (
	"maps"
	"slices"

	"claudeops/internal/ops"
)

// value is what is known of a variable or an expansion.
type value struct {
	known  bool
	text   string
	glob   bool // the text is a pattern that the shell expanded
	num    bool // it is a number, whichever
	many   bool // it may be several words even inside quotes
	inline bool // it is as good as written in place: a quoted here-document
}

// input says where the standard input of a command comes from.
type input int

const (
	inputNone  input = iota // the terminal, /dev/null, nothing
	inputFixed              // text that stands in the command
	inputData               // a file, a pipe, run-time data
)

// scope is what a command of the tree would see around it.
type scope struct {
	cwds      []string // where it may run; empty when that is not known
	vars      map[string]value
	loop      bool // it may run more than once
	remote    bool // it runs on another host
	container bool // it runs inside a container
	errexit   bool
	depth     int
	stdin     input
	files     []string // the folders below which the names on standard input lie, when a finder wrote them
	calls     []string // functions being called
}

// sub is the scope of a subshell: what it changes is lost.
func (s *scope) sub() *scope {
	c := *s
	c.vars = maps.Clone(s.vars)
	c.cwds = slices.Clone(s.cwds)
	return &c
}

// foreign is the scope of a command that another shell or host runs.
func (s *scope) foreign() *scope {
	c := s.sub()
	c.vars = map[string]value{}
	c.errexit = false
	return c
}

func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

// forget makes variables unknown.
func (s *scope) forget(names []string) {
	for _, n := range names {
		s.set(n, value{})
	}
}

// union merges the folders of two ways to go on; nil means any folder.
func union(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > 6 {
		return nil
	}
	return out
}

// function is a shell function of the command.
type function struct {
	body    func(*scope)
	assigns []string
	calls   int
	effects bool // its body has effects
}

// judge walks one command.
type judge struct {
	g     *Guard
	facts *Facts
	repos []string
	worst *finding
	// effects in the order in which they would happen.
	effects []Effect
	names   []string // every program name that was seen, for the tests
	opaque  bool     // a program name is known only at run time, for the tests
	rest    int      // how many commands may still be judged
	muted   bool     // effects are not counted: a function that is only defined
	funcs   map[string]*function
	posix   bool // the tree was read as POSIX shell
	waits   bool // the script waits for its background jobs
	fetched string
	stored  string
	named   string // the operator rule that decided
}

// add records a finding; the strictest stays.
func (j *judge) add(f finding) {
	if j.worst == nil || f.rank() > j.worst.rank() {
		j.worst = &f
	}
}

// refuse records that no tier may do it.
func (j *judge) refuse(rule, what, why, hint string) {
	j.add(finding{need: never, rule: rule, what: what, why: why, hint: hint})
}

// need records that a tier may do it. Inside a loop nothing but looking is allowed.
func (j *judge) need(s *scope, tier ops.Tier, rule, what string) {
	if tier > ops.Tier1 && s.loop {
		j.refuse(ruleLoop, what+" in a loop", "repetition defeats the cooldown count", "run it once, by itself")
		return
	}
	if tier > ops.Tier1 && s.container {
		j.refuse(ruleBash, what+" inside a container", "changes inside containers are lost or destroy data", "change the service's configuration in its repository instead")
		return
	}
	j.add(finding{need: tier, rule: rule, what: what})
}
