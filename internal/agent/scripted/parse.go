package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// An alias can make a small file large, so nesting and number of steps are bounded.
const (
	maxNesting = 16
	maxSteps   = 10_000
	maxRepeat  = 1000
)

// notKnown finds what the YAML library says about an unknown key, in which it names a type of ours.
var notKnown = ops.Pattern(`field (\S+) not found in type \S+`)

// Parse reads a scenario strictly: an unknown key, a doubled key or a wrong value is an error that names the file and the line or step.
func Parse(data []byte, file string) (Scenario, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var s Scenario
	err := decoder.Decode(&s)
	if errors.Is(err, io.EOF) {
		return Scenario{}, fmt.Errorf("%s: the scenario is empty", file)
	}
	if err == nil && !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		err = errors.New("only one YAML document is allowed")
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:")
		text = notKnown().ReplaceAllString(text, "unknown key $1")
		return Scenario{}, fmt.Errorf("%s: %s", file, strings.Join(strings.Fields(text), " "))
	}
	return s, nil
}

func (s Scenario) check() error {
	if len(s.Tiers)+len(s.Handlers)+len(s.Roles) == 0 {
		return errors.New(`the scenario needs "tiers" with at least one tier`)
	}
	steps := 0
	for tier, script := range s.Tiers {
		if !tier.Known() {
			return fmt.Errorf("there is no tier %d, only 1, 2 and 3", tier)
		}
		if err := script.check(&steps); err != nil {
			return fmt.Errorf("%s: %w", tier, err)
		}
	}
	for id, script := range s.Handlers {
		if err := script.check(&steps); err != nil {
			return fmt.Errorf("handler %s: %w", id, err)
		}
	}
	for role, script := range s.Roles {
		if role != ops.RoleManager && role != ops.RolePlanner && role != ops.RoleJudge {
			return fmt.Errorf("there is no role %q, only judge, manager and planner", role)
		}
		if err := script.check(&steps); err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
	}
	return nil
}

func (s Script) check(steps *int) error {
	for i, attempt := range s.Attempts {
		if attempt.Attempts != nil || s.Steps != nil {
			return errors.New("only attempts may stand beside attempts")
		}
		if err := attempt.check(steps); err != nil {
			return fmt.Errorf("attempt %d: %w", i+1, err)
		}
	}
	if !(s.CostUSD >= 0) || math.IsInf(s.CostUSD, 0) { // NaN is not >= 0
		return errors.New("cost_usd: want an amount of 0 or more")
	}
	if err := s.Ending.check(); err != nil {
		return err
	}
	return checkSteps(s.Steps, 1, steps)
}

func (e Ending) check() error {
	switch {
	case e.Exit != nil && (*e.Exit < 0 || *e.Exit > 255):
		return errors.New("exit: want an exit code from 0 to 255")
	case e.APIStatus != 0 && (e.APIStatus < 400 || e.APIStatus > 599):
		return errors.New("api_status: want an HTTP status from 400 to 599")
	case e.RetryAfter < 0:
		return errors.New("retry_after: want a duration such as 3s")
	case e.Subtype != "" && !strings.HasPrefix(e.Subtype, "error_"):
		return errors.New("subtype: want a subtype that begins with error_")
	}
	return nil
}

func checkSteps(list []Step, depth int, count *int) error {
	if depth > maxNesting {
		return fmt.Errorf("steps are nested more than %d deep", maxNesting)
	}
	for i, s := range list {
		if *count++; *count > maxSteps {
			return fmt.Errorf("the scenario has more than %d steps", maxSteps)
		}
		err := s.check()
		if err == nil {
			err = checkSteps(s.Steps, depth+1, count)
		}
		if err == nil {
			err = checkSteps(s.Else, depth+1, count)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (s Step) check() error {
	kinds := 0
	for _, given := range []bool{
		s.Say != nil, s.Act != nil, s.Bash != nil, s.Pause != nil, s.Write != nil, s.When != nil, s.Repeat != nil, s.Finish != nil,
	} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("a step is one of act, bash, finish, pause, repeat, say, when and write")
	case s.Say != nil && blank(*s.Say), s.Bash != nil && blank(*s.Bash):
		return errors.New("the text is empty")
	case s.ExpectFailure != nil && s.Bash == nil:
		return errors.New("expect_failure belongs to bash")
	case s.Pause != nil && *s.Pause < 0:
		return errors.New("want a duration such as 500ms")
	case s.Act != nil && (blank(s.Act.Service) || blank(s.Act.Action) || blank(s.Act.Why)):
		return errors.New(`act needs "service", "action" and "why"`)
	case s.Write != nil && blank(s.Write.Path):
		return errors.New(`write needs a "path"`)
	case s.Repeat != nil && (*s.Repeat < 1 || *s.Repeat > maxRepeat || len(s.Steps) == 0):
		return fmt.Errorf(`repeat needs a number from 1 to %d and "steps"`, maxRepeat)
	case s.Steps != nil && s.When == nil && s.Repeat == nil, s.Else != nil && s.When == nil:
		return errors.New("steps belong to when and repeat, else to when")
	case s.Finish != nil:
		return s.Finish.check()
	case s.When != nil:
		return s.When.check()
	}
	return nil
}

func (w When) check() error {
	switch {
	case (w.Contains == nil) == blank(w.Bash):
		return errors.New("when needs either file_contains or bash")
	case w.Exit != 0 && w.Contains != nil:
		return errors.New("exit in when belongs to bash")
	case w.Exit < 0 || w.Exit > 255:
		return errors.New("exit: want an exit code from 0 to 255")
	case w.Contains != nil && (blank(w.Contains.Path) || blank(w.Contains.Text)):
		return errors.New(`file_contains needs "path" and "text"`)
	}
	return nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
