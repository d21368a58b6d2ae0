package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"claudeops/internal/agent/pretool"
)

// options are the flags of one start.
type options struct {
	scenario     string
	prompt       string
	systemPrompt string
	model        string
	sessionID    string
	resume       string
	mode         string
	tools        []string
	denied       []string     // tools and Bash rules that must not be used
	hook         pretool.Hook // the command to ask before every tool call; empty when none is set
	fork         bool
	structured   bool    // a schema was given
	budget       float64 // in USD; 0 means no limit
	version      bool
}

// arity is how many values a flag takes.
type arity int

const (
	arityNone arity = iota
	arityOne
	arityMany // takes the next argument and all that follow up to the next flag, as the real program does
)

func flagArities() map[string]arity {
	return map[string]arity{
		"--scenario":                  arityOne,
		"-p":                          arityNone,
		"--print":                     arityNone,
		"--version":                   arityNone,
		"-v":                          arityNone,
		"--verbose":                   arityNone,
		"--output-format":             arityOne,
		"--model":                     arityOne,
		"--session-id":                arityOne,
		"--resume":                    arityOne,
		"-r":                          arityOne,
		"--fork-session":              arityNone,
		"--append-system-prompt":      arityOne,
		"--append-system-prompt-file": arityOne,
		"--tools":                     arityMany,
		"--allowedTools":              arityMany,
		"--disallowedTools":           arityMany,
		"--permission-mode":           arityOne,
		"--settings":                  arityOne,
		"--setting-sources":           arityOne,
		"--strict-mcp-config":         arityNone,
		"--mcp-config":                arityOne,
		"--json-schema":               arityOne,
		"--max-budget-usd":            arityOne,
	}
}

// arguments are flags with their values, and what is left.
type arguments struct {
	flags map[string][]string
	rest  []string
}

func (a arguments) has(name string) bool { _, ok := a.flags[name]; return ok }

func (a arguments) one(name string) string {
	if values := a.flags[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

func splitArguments(args []string) (arguments, error) {
	out := arguments{flags: map[string][]string{}}
	arities := flagArities()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			out.rest = append(out.rest, args[i+1:]...)
			break
		}
		if !isFlag(arg) {
			out.rest = append(out.rest, arg)
			continue
		}
		name, value, inline := arg, "", false
		if strings.HasPrefix(arg, "--") {
			name, value, inline = strings.Cut(arg, "=")
		}
		takes, known := arities[name]
		switch {
		case !known || (takes == arityNone && inline):
			return arguments{}, fmt.Errorf("unknown option '%s'", arg)
		case takes == arityNone:
			out.flags[name] = nil
			continue
		case !inline && i+1 >= len(args):
			return arguments{}, fmt.Errorf("option '%s' argument missing", name)
		case !inline:
			i++
			value = args[i]
		}
		out.flags[name] = append(out.flags[name], value)
		for takes == arityMany && i+1 < len(args) && !isFlag(args[i+1]) {
			i++
			out.flags[name] = append(out.flags[name], args[i])
		}
	}
	return out, nil
}

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// parseOptions reads the command line of the agent. Whatever the real program refuses is refused here too.
func parseOptions(args []string) (options, error) {
	a, err := splitArguments(args)
	if err != nil {
		return options{}, err
	}
	if a.has("--version") || a.has("-v") {
		return options{version: true}, nil
	}
	o := options{
		scenario:   a.one("--scenario"),
		model:      a.one("--model"),
		sessionID:  a.one("--session-id"),
		resume:     a.one("--resume") + a.one("-r"),
		mode:       a.one("--permission-mode"),
		fork:       a.has("--fork-session"),
		structured: a.has("--json-schema"),
		tools:      knownTools(),
		denied:     toolList(a.flags["--disallowedTools"]),
	}
	if o.scenario == "" {
		o.scenario = builtinPrefix + DemoScenario
	}
	if o.mode == "" {
		o.mode = "default"
	}
	if list := toolList(a.flags["--tools"]); a.has("--tools") && !slices.Equal(list, []string{"default"}) {
		o.tools = list
	}
	if err := checkOptions(a, o); err != nil {
		return options{}, err
	}
	if o.hook, err = pretool.In(a.one("--settings")); err != nil {
		return options{}, err
	}
	if a.has("--max-budget-usd") {
		if o.budget, err = strconv.ParseFloat(a.one("--max-budget-usd"), 64); err != nil || !(o.budget > 0) {
			return options{}, errors.New("option '--max-budget-usd' must be a positive number")
		}
	}
	if len(a.rest) > 0 {
		o.prompt = a.rest[0]
	}
	o.systemPrompt = a.one("--append-system-prompt")
	if file := a.one("--append-system-prompt-file"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return options{}, fmt.Errorf("append system prompt file not found: %s", file)
		}
		o.systemPrompt = string(text)
	}
	return o, nil
}

func checkOptions(a arguments, o options) error {
	modes := []string{"default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"}
	switch {
	case len(a.rest) > 1:
		return fmt.Errorf("too many arguments: only one prompt is expected, got %d", len(a.rest))
	case !a.has("-p") && !a.has("--print"):
		return errors.New("this agent only runs with -p")
	case a.one("--output-format") != "stream-json":
		return errors.New("this agent only writes --output-format stream-json")
	case !a.has("--verbose"):
		return errors.New("when using --print, --output-format=stream-json requires --verbose")
	case a.has("--append-system-prompt") && a.has("--append-system-prompt-file"):
		return errors.New("cannot use both --append-system-prompt and --append-system-prompt-file")
	case !slices.Contains(modes, o.mode):
		return fmt.Errorf("option '--permission-mode' argument '%s' is invalid, allowed are: %s", o.mode, strings.Join(modes, ", "))
	case a.has("--session-id") && !validID(o.sessionID):
		return errors.New("invalid session ID, must be a valid UUID")
	case o.sessionID != "" && o.resume != "" && !o.fork:
		return errors.New("--session-id can only be used with --resume if --fork-session is also specified")
	case o.structured && !json.Valid([]byte(a.one("--json-schema"))):
		return errors.New("--json-schema is not valid JSON; it takes the schema itself, not a file")
	}
	return nil
}

func validID(id string) bool { return len(id) == 36 && uuid.Validate(id) == nil }
