package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Rule is a row an operator adds to the matrix. It is asked after the built-in rows that recognize a failure and before
// those for the unknown, so it can name what nobody knew and never weakens what is known.
type Rule struct {
	ID        string            `json:"id"`
	When      When              `json:"when"`
	Level     ops.RecoveryLevel `json:"level"`
	ErrorType ops.ErrorType     `json:"error_type"`
	Why       string            `json:"why"`
}

// When is what a rule asks for. All that is set must hold.
type When struct {
	Failure   ops.FailureClass `json:"failure,omitempty"` // class of the failure as the runner names it
	APIStatus *int             `json:"api_status,omitempty"`
	ExitCode  *int             `json:"exit_code,omitempty"`
	Contains  string           `json:"contains,omitempty"` // in the error text of the agent CLI, upper and lower case alike
	StopCause string           `json:"stop_cause,omitempty"`
}

// Empty reports whether nothing is asked for.
func (w When) Empty() bool { return w == When{} }

func (w When) evidence() evidence {
	var e evidence
	if w.Failure != "" {
		e.classes = []ops.FailureClass{w.Failure}
	}
	if w.APIStatus != nil {
		e.apiStatus = []int{*w.APIStatus}
	}
	if w.ExitCode != nil {
		e.exitCodes = []int{*w.ExitCode}
	}
	if w.Contains != "" {
		e.contains = []string{strings.ToLower(w.Contains)}
	}
	if w.StopCause != "" {
		e.stopCauses = []ops.StopCause{ops.StopCause(w.StopCause)}
	}
	return e
}

// Compiled once; read only.
var nameShape = ops.Pattern(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// shortestText keeps a rule from matching nearly every error text.
const shortestText = 3

// CheckRules says what is wrong with an operator's rules, all of it at once.
func CheckRules(rules []Rule) error {
	taken := map[string]string{}
	for _, r := range slices.Concat(recognized(), unknown()) {
		taken[r.id] = "a built-in row"
	}
	var problems []error
	for i, r := range rules {
		name := fmt.Sprintf("recovery rule %d (%q)", i+1, r.ID)
		problems = append(problems, r.problems(name)...)
		if owner := taken[r.ID]; owner != "" && r.ID != "" {
			problems = append(problems, fmt.Errorf("%s: the id is taken by %s; choose another", name, owner))
		}
		taken[r.ID] = fmt.Sprintf("rule %d", i+1)
	}
	return errors.Join(problems...)
}

func (r Rule) problems(name string) []error {
	var out []error
	refuse := func(format string, args ...any) {
		out = append(out, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
	}
	if !nameShape().MatchString(r.ID) {
		refuse("the id must be lower-case letters, digits, - and _, at most 64")
	}
	if !nameShape().MatchString(string(r.ErrorType)) {
		refuse("error_type %q must be lower-case letters, digits, - and _, at most 64", r.ErrorType)
	}
	if r.Level < ops.RecoveryRetry || r.Level > ops.RecoveryForceDone {
		refuse("level is %d: use 1 (retry), 2 (nudge), 3 (replan), 4 (fallback) or 5 (force-done)", r.Level)
	}
	if strings.TrimSpace(r.Why) == "" {
		refuse("why is empty: say in one sentence why this level is right")
	}
	if r.When.Empty() {
		refuse("when is empty: name at least one of failure, api_status, exit_code, contains, stop_cause")
	}
	if s := r.When.APIStatus; s != nil && (*s < 100 || *s > 599) {
		refuse("api_status is %d: use an HTTP status", *s)
	}
	if c := r.When.Contains; c != "" && len(strings.TrimSpace(c)) < shortestText {
		refuse("contains %q is too short: give at least %d characters of the CLI's error text", c, shortestText)
	}
	return out
}
