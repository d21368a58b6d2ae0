package guard

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// value is what is known of a variable or an expansion.
type value struct {
	known  bool
	text   string
	glob   bool // the text is a pattern that the shell expanded
	num    bool // it is a number, whichever
	plain  bool // it is a name, or several: each starts with a letter or digit and holds no blank
	unset  bool // or nothing at all
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
	loop      bool         // it may run more than once
	remote    bool         // it runs on another host
	container bool         // it runs inside a container
	errexit   bool         // set -e holds: what follows a failed command does not run
	maybe     bool         // it may not run at all, or in a shell of its own
	skipped   []assignment // what the statement sets only if all of its && hold
	depth     int
	stdin     input
	files     []string // the folders below which the names on standard input lie, when a finder wrote them
	names     bool     // its standard input holds plain names, one on each line
	calls     []string // functions being called
}

// sub is the scope of a subshell: what it changes is lost.
func (s *scope) sub() *scope {
	c := *s
	c.maybe, c.skipped = true, nil
	c.vars = maps.Clone(s.vars)
	c.cwds = slices.Clone(s.cwds)
	return &c
}

// foreign is the scope of a command that another shell or host runs.
func (s *scope) foreign() *scope {
	c := s.sub()
	c.vars = map[string]value{}
	c.errexit, c.maybe = false, false
	return c
}

// tolerant runs fn where set -e does not count: in conditions and on the left of && and ||.
func (s *scope) tolerant(fn func()) {
	before := s.errexit
	s.errexit = false
	fn()
	s.errexit = before
}

func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

// has reports whether the script itself gave the variable a value.
func (s *scope) has(name string) bool {
	_, ok := s.vars[name]
	return ok
}

// assignment is a variable that some commands set.
type assignment struct {
	name string
	num  bool // to a number, whichever
}

// forget makes variables unknown that may or may not have been set; a counter stays a number.
func (s *scope) forget(list []assignment) {
	for _, a := range list {
		old, ok := s.vars[a.name]
		number := !ok || old.num || old.known && isDigits(old.text)
		s.set(a.name, value{num: a.num && number, unset: true})
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
	assigns []assignment
	calls   int
	effects bool // its body has effects
	maybe   bool // it may not be defined when it is called
}

// judge walks one command.
type judge struct {
	g      *Guard
	reader *reader
	facts  *Facts
	repos  []string
	worst  *finding
	// forbidden is a refusal that no rule of an operator lifts.
	forbidden *finding
	// effects in the order in which they would happen.
	effects []Effect
	seen    [][]field // the words of every simple command
	sorted  []sorted  // what its options and operands are, for the tests
	files   []string  // the files it was seen to use, for the tests
	opaque  bool      // something in it cannot be read, for the tests
	endless bool      // a loop or function never ends, for the tests
	rest    int       // how many commands may still be judged
	muted   bool      // effects are not counted: a function that is only defined
	funcs   map[string]*function
	waits   bool // the script waits for its background jobs
	fetched string
	stored  string
	planted string                    // a write that may make a folder a repository
	named   string                    // the operator rule that decided
	added   map[*syntax.Word][]string // words that switch on the safe mode of a program, behind its name
}

// add records a finding; the strictest stays.
func (j *judge) add(f finding) {
	if f.need >= never {
		switch f.rule {
		case ruleText, ruleRunTime, ruleInline, ruleLauncher:
			j.opaque = true
		}
	}
	if f.need >= never && fixedRule(f.rule) {
		j.forbidden = &f
	}
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
		j.refuse(ruleBash, what+" inside a container", "changes inside containers are lost or destroy data",
			"change the service's configuration in its repository instead")
		return
	}
	j.add(finding{need: tier, rule: rule, what: what})
}
