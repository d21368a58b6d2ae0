package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"claudeops/internal/guard/wall/confine"
)

const (
	// ActName is the name under which the program asks the supervisor to act, for agents without MCP.
	ActName = "claudeops-act"
	// ToolPatience is how long the result of a tool may take: longer than the longest time limit of an action.
	ToolPatience = 45 * time.Minute

	// SocketVariable names the socket that the program asks.
	SocketVariable = "CLAUDEOPS_TOOL_SOCKET"
	keyVariable    = "CLAUDEOPS_SESSION_KEY"

	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitBlocked = 7
)

// Tool asks the supervisor to run one of its tools. A refusal is an answer, not an error.
func Tool(socket, key, tool string, input json.RawMessage) (Answer, error) {
	return within(ToolPatience, func(until time.Time) (Answer, error) {
		return ask(socket, Request{Kind: KindTool, Tool: tool, Input: input, Key: key}, until)
	})
}

const actUsage = `Ask the supervisor to act on the services of this incident.

  claudeops-act list                                 the actions that this session may ask for
  claudeops-act run SERVICE ACTION --why TEXT        run one; --branch NAME for a push
  claudeops-act undo ID --why TEXT                   undo one that this session asked for
  claudeops-act status                               the last known state of the services
  claudeops-act probe [SERVICE ...]                  check services now
  claudeops-act cooldowns                            what is left of the rate limits
  claudeops-act look                                 name what can be looked at from outside this session, and the queries
  claudeops-act look WHAT [TARGET [RECORD]]          look at it
  claudeops-act look query SERVICE NAME [K=V ...]    ask a database what the operator declared
  claudeops-act look -- PROGRAM [WORD ...]           the same, by ss, ip show, nft list, dig, nc -z or ping
  claudeops-act read -- PROGRAM [WORD ...]           run a program that reads files and its input, and does nothing else
`

// Act is the command of agents without MCP. It prints the result, or why it is refused, and returns the exit code.
func Act(args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 2 && args[0] == "read" && args[1] == "--" {
		return confine.OnlyRead(args[2:], environ, stderr)
	}
	tool, input, err := readAct(args)
	if err != nil {
		fmt.Fprintf(stderr, "%v\n\n%s", err, actUsage)
		return exitUsage
	}
	socket, key := confine.ValueOf(environ, SocketVariable), confine.ValueOf(environ, keyVariable)
	if socket == "" {
		fmt.Fprintln(stderr, "claudeops-act: it works only in a session of Claude Ops")
		return exitError
	}
	answer, err := Tool(socket, key, tool, input)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, refusal(err))
		return exitError
	case answer.Verdict != Allow:
		fmt.Fprintln(stderr, answer.Reason)
		return exitBlocked
	}
	fmt.Fprintln(stdout, strings.TrimSuffix(answer.Text, "\n")) // what a program printed is printed as it was
	return exitOK
}

// readAct turns the words of a command into a tool and its input.
func readAct(args []string) (tool string, input json.RawMessage, err error) {
	if len(args) > 0 && args[0] == "look" {
		input, err = json.Marshal(readLook(args[1:]))
		return "look", input, err
	}
	words, options, err := splitOptions(args)
	if err != nil {
		return "", nil, err
	}
	if len(words) == 0 {
		return "", nil, errors.New("claudeops-act: say what to do")
	}
	fields := map[string]any{}
	rest := words[1:]
	need := func(n int) error {
		if len(rest) != n {
			return fmt.Errorf("claudeops-act %s: wrong number of words", words[0])
		}
		return nil
	}
	switch words[0] {
	case "list":
		tool, err = "actions_list", need(0)
	case "status":
		tool, err = "services_status", need(0)
	case "cooldowns":
		tool, err = "cooldowns", need(0)
	case "probe":
		tool, fields["services"] = "probe_now", append([]string{}, rest...)
	case "run":
		if tool, err = "action_run", need(2); err == nil {
			fields["service"], fields["action"], fields["why"] = rest[0], rest[1], options["why"]
			if b := options["branch"]; b != "" {
				fields["branch"] = b
			}
		}
	case "undo":
		if tool, err = "action_undo", need(1); err == nil {
			if rest[0] == "" || strings.Trim(rest[0], "0123456789") != "" {
				return "", nil, fmt.Errorf("claudeops-act undo: %q is not the number of an action", rest[0])
			}
			fields["id"], fields["why"] = json.Number(rest[0]), options["why"]
		}
	default:
		err = fmt.Errorf("claudeops-act: %q is not known", words[0])
	}
	if err != nil {
		return "", nil, err
	}
	input, err = json.Marshal(fields)
	return tool, input, err
}

// readLook reads what is to be looked at. The words of a program are not options of this one.
func readLook(words []string) map[string]any {
	if len(words) > 0 && words[0] == "--" {
		return map[string]any{"what": "command", "argv": words[1:]}
	}
	fields, params := map[string]any{}, map[string]string{}
	for i, word := range words {
		if i < 3 {
			fields[[]string{"what", "target", "query"}[i]] = word
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		params[name] = value
	}
	if len(params) > 0 {
		fields["params"] = params
	}
	return fields
}

func splitOptions(args []string) (words []string, options map[string]string, err error) {
	options = map[string]string{}
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			words = append(words, args[i])
			continue
		}
		name, value, joined := strings.Cut(name, "=")
		if name != "why" && name != "branch" {
			return nil, nil, fmt.Errorf("claudeops-act: the option --%s is not known", name)
		}
		if !joined {
			if i++; i == len(args) {
				return nil, nil, fmt.Errorf("claudeops-act: --%s needs a value", name)
			}
			value = args[i]
		}
		options[name] = value
	}
	return words, options, nil
}
