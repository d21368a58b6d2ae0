// Package acptest is an agent CLI that speaks the Agent Client Protocol and does what a test tells it: well, badly or with malice. It needs
// no model and no key. The test binary plays it.
package acptest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// arg makes a test binary be the agent.
const arg = "be-the-acp-agent"

// Version is what the agent says of itself.
const Version = "1.2.3"

// RunIfAgent plays the agent in a test binary that was started as one. TestMain calls it first.
func RunIfAgent() {
	if len(os.Args) > 3 && os.Args[1] == arg {
		os.Exit(run(os.Args[2], os.Args[3])) // the test binary is the program here
	}
}

// Command returns the command of an agent that does one thing. With is what some things need: a command, a text.
func Command(t testing.TB, what What, with string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, arg, string(what), with}
}

// What is what the agent does when it is prompted.
type What string

// The honest ones.
const (
	Answer What = "answer" // says With, or what comes after "||" in it when it is asked for JSON
	Fail   What = "fail"   // its API fails
	Crash  What = "crash"  // exits with code 3
	Runs   What = "runs"   // asks for the command With, runs it if it may, and says what came of it
	Silent What = "silent" // says nothing
	Many   What = "many"   // prints a long line, then as Answer
	Own    What = "own"    // asks for a tool of the supervisor without telling its input, and calls it
)

// Those that a canary or a session must see through.
const (
	Unasked   What = "unasked"    // runs With without asking
	Obstinate What = "obstinate"  // asks for With and runs it although it was refused
	Swaps     What = "swaps"      // asks for ls and then tells that it runs With under the same id
	AsksTwice What = "asks-twice" // asks for ls, then for With under the same id, then says that it ran
	Again     What = "again"      // runs a call again that was allowed once
	SameIDs   What = "same-ids"   // sends two requests with one id
	Garbage   What = "garbage"    // prints what is no message, and answers nobody asked for
	Reaches   What = "reaches"    // asks the client for files and a terminal
	Late      What = "late"       // asks for a permission after its turn is over
	Always    What = "always"     // offers only to allow With always
	Lazy      What = "lazy"       // never uses a tool
	Kinds     What = "kinds"      // asks for a tool of an unknown kind
)

type agent struct {
	in   *bufio.Scanner
	out  io.Writer
	what What
	with string
	n    int
	id   string
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
		Value     string `json:"value"`
		Prompt    []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	} `json:"params"`
	Result struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	} `json:"result"`
}

func run(what, with string) int {
	a := &agent{in: bufio.NewScanner(os.Stdin), out: os.Stdout, what: What(what), with: with}
	a.in.Buffer(nil, 64<<20)
	for {
		m, err := a.next()
		if err != nil {
			return 0
		}
		if code := a.handle(m); code >= 0 {
			return code
		}
	}
}

func (a *agent) next() (message, error) {
	var m message
	if !a.in.Scan() {
		return m, errors.Join(a.in.Err(), io.EOF)
	}
	return m, json.Unmarshal(a.in.Bytes(), &m)
}

func (a *agent) print(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(a.out, "%s\n", data)
}

func (a *agent) reply(id json.RawMessage, result any) {
	a.print(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *agent) fail(id json.RawMessage, code int, text string) {
	a.print(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

func (a *agent) update(fields map[string]any) {
	a.print(map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": map[string]any{"sessionId": a.id, "update": fields}})
}

func (a *agent) say(text string) {
	a.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}})
}

// record is the file that holds a conversation.
func record(id string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		panic(err)
	}
	return filepath.Join(home, "conversations", id+".json")
}

// handle answers one request. A code ends the program.
func (a *agent) handle(m message) int {
	switch m.Method {
	case "initialize":
		a.reply(m.ID, map[string]any{
			"protocolVersion": 1, "agentInfo": map[string]any{"name": "acptest", "version": Version},
			"agentCapabilities": map[string]any{"sessionCapabilities": map[string]any{"fork": map[string]any{}}},
		})
	case "session/new", "session/fork":
		if m.Method == "session/fork" {
			if _, err := os.Stat(record(m.Params.SessionID)); err != nil {
				a.fail(m.ID, -32602, "there is no such conversation")
				return -1
			}
		}
		a.id = "conv-" + uuid.NewString()
		a.keep()
		// It has a model of the name that tests ask for, which is no value of the setting.
		a.reply(m.ID, map[string]any{"sessionId": a.id, "configOptions": []any{map[string]any{
			"id": "model", "category": "model", "currentValue": "own|m",
			"options": []any{map[string]any{"name": "all", "options": []any{
				map[string]any{"value": "own|m", "name": "m"}, map[string]any{"value": "big", "name": "Big"},
			}}},
		}}})
	case "session/set_config_option":
		if m.Params.Value != "big" {
			a.fail(m.ID, -32603, "there is no model "+m.Params.Value)
			return -1
		}
		a.with = "I am " + m.Params.Value
		a.reply(m.ID, map[string]any{})
	case "session/prompt":
		return a.prompted(m)
	}
	return -1
}

func (a *agent) keep() {
	if err := os.MkdirAll(filepath.Dir(record(a.id)), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(record(a.id), []byte(`{"said":[]}`), 0o600); err != nil {
		panic(err)
	}
}

func (a *agent) prompted(m message) int {
	text := ""
	for _, p := range m.Params.Prompt {
		text += p.Text
	}
	switch a.what {
	case Crash:
		return 3
	case Silent:
		select {}
	case Fail:
		a.fail(m.ID, -32603, "Internal error: API Error: 500 the model is gone")
		return -1
	case Many:
		a.update(map[string]any{"sessionUpdate": "agent_thought_chunk", "content": map[string]any{"type": "text", "text": strings.Repeat("x", 2<<20)}})
	default:
		a.act(text)
	}
	said, typed, _ := strings.Cut(a.with, "||")
	if strings.Contains(text, "JSON Schema") && typed != "" {
		said = typed
	}
	if a.what == Answer || a.what == Many {
		a.say(said)
	}
	a.update(map[string]any{"sessionUpdate": "usage_update", "used": 1000, "size": 200000, "cost": map[string]any{"amount": 0.25, "currency": "USD"}})
	a.reply(m.ID, map[string]any{"stopReason": "end_turn", "usage": map[string]any{"inputTokens": 7, "outputTokens": 3}})
	if a.what == Late {
		a.say(fmt.Sprint("late: ", a.ask("late", a.with)))
	}
	return -1
}

// canary is the command of a trial, which every agent but the malicious ones tries as it is told.
func canary(prompt string) string {
	for line := range strings.Lines(prompt) {
		if c := strings.TrimSpace(line); strings.HasPrefix(c, "touch ") {
			return c
		}
	}
	return ""
}

func (a *agent) act(prompt string) {
	if c := canary(prompt); c != "" && a.what != Lazy {
		a.tryOut(c)
		return
	}
	switch a.what {
	case Runs, Obstinate:
		if _, why, ok := strings.Cut(prompt, "refused by the guard:"); ok {
			a.say(fmt.Sprintf(`{"heard":%q}`, strings.TrimSpace(why)))
			return
		}
		if a.ask("call_1", a.with) || a.what == Obstinate {
			a.execute("call_1", a.with)
		} else {
			a.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "failed"})
			a.say("it was refused")
		}
	case Unasked:
		a.execute("call_1", a.with)
	case Swaps:
		if a.ask("call_1", "ls") {
			a.update(map[string]any{
				"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "in_progress", "kind": "execute",
				"rawInput": map[string]any{"command": a.with},
			})
			a.execute("call_1", a.with)
		}
	case AsksTwice:
		a.ask("call_1", "ls")
		a.ask("call_1", a.with)
		a.execute("call_1", a.with)
	case Again:
		if a.ask("call_1", "ls") {
			a.execute("call_1", "ls")
			a.execute("call_1", "ls")
		}
	case Own:
		const tool = "claudeops_services_status"
		a.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "call_1", "title": tool, "status": "pending", "rawInput": map[string]any{}})
		if a.askOffering("call_1", "", "other", "allow_once", "reject_once") {
			for _, status := range []string{"in_progress", "completed"} {
				a.update(map[string]any{
					"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": tool, "status": status, "rawInput": map[string]any{"service": "web"},
				})
			}
			a.say("called it")
		}
	case SameIDs, Garbage, Reaches:
		a.misbehave()
	case Always:
		a.say(fmt.Sprint("allowed: ", a.askOffering("call_1", a.with, "execute", "allow_always", "reject_once")))
	case Kinds:
		a.say(fmt.Sprint("allowed: ", a.askOffering("call_1", "", "teleport", "allow_once", "reject_once")))
	default:
	}
}

// tryOut does what the trial wants. Only an agent that never asks, or that does not take no for an answer, runs it.
func (a *agent) tryOut(command string) {
	switch a.what {
	case Unasked:
		a.execute("canary", command)
	case Obstinate:
		a.ask("canary", command)
		a.execute("canary", command)
	default:
		if a.ask("canary", command) {
			a.execute("canary", command)
		}
	}
}

func (a *agent) misbehave() {
	switch a.what {
	case SameIDs:
		for _, command := range []string{"ls", a.with} {
			a.request("dup", command, "execute", "allow_once", "reject_once")
			m, err := a.next()
			a.say(fmt.Sprintf("%v %s; ", err == nil && m.Result.Outcome.Outcome == "selected", m.Result.Outcome.Option))
		}
	case Garbage:
		fmt.Fprintln(a.out, "this is no message")
		fmt.Fprintln(a.out, `{"jsonrpc":"2.0","id":999,"result":{"stopReason":"end_turn"}}`)
		fmt.Fprintln(a.out, `{"jsonrpc":"1.0","id":3,"result":{}}`)
		fmt.Fprintln(a.out, `{"jsonrpc":"2.0","id":{"a":1},"method":"session/request_permission"}`)
		fmt.Fprintln(a.out, `{"jsonrpc":"2.0","id":3,"result":`)
		fmt.Fprintln(a.out, strings.Repeat("{", 1<<20))
		a.say("still here")
	case Reaches:
		for i, method := range []string{"fs/read_text_file", "fs/write_text_file", "terminal/create", "whatever"} {
			a.print(map[string]any{
				"jsonrpc": "2.0", "id": fmt.Sprint("r", i), "method": method,
				"params": map[string]any{"sessionId": a.id, "path": a.with, "content": "x", "command": "touch " + a.with},
			})
			if !a.in.Scan() {
				return
			}
			a.say(method + " " + a.in.Text() + "\n")
		}
	default:
	}
}

// ask asks for a command, and reports whether it may be run.
func (a *agent) ask(id, command string) bool {
	const kind = "execute"
	a.update(map[string]any{
		"sessionUpdate": "tool_call", "toolCallId": id, "title": "bash", "kind": kind, "status": "pending",
		"rawInput": map[string]any{"command": command},
	})
	return a.askOffering(id, command, kind, "allow_always", "allow_once", "reject_once")
}

func (a *agent) askOffering(id, command, kind string, offers ...string) bool {
	a.n++
	a.request(fmt.Sprint("ask-", a.n), command, kind, append([]string{id}, offers...)...)
	for {
		m, err := a.next()
		if err != nil {
			os.Exit(0) // the client is gone
		}
		if m.Method == "" {
			return m.Result.Outcome.Outcome == "selected" && strings.HasPrefix(m.Result.Outcome.Option, "allow")
		}
	}
}

func (a *agent) request(id, command, kind string, offers ...string) {
	call := "call_1"
	if !strings.Contains(offers[0], "_once") && !strings.Contains(offers[0], "_always") {
		call, offers = offers[0], offers[1:]
	}
	var options []map[string]any
	for _, kind := range offers {
		options = append(options, map[string]any{"optionId": kind, "kind": kind, "name": kind})
	}
	a.print(map[string]any{
		"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": map[string]any{
			"sessionId": a.id, "options": options,
			"toolCall": map[string]any{"toolCallId": call, "title": "bash", "kind": kind, "rawInput": map[string]any{"command": command}},
		},
	})
}

// execute runs a command and tells of it.
func (a *agent) execute(id, command string) {
	tell := func(status, text string) {
		a.update(map[string]any{
			"sessionUpdate": "tool_call_update", "toolCallId": id, "title": "bash", "kind": "execute", "status": status,
			"content": []any{map[string]any{"type": "content", "content": map[string]any{"type": "text", "text": text}}},
		})
	}
	tell("in_progress", "")
	out, err := exec.Command("/bin/sh", "-c", command).CombinedOutput() //nolint:gosec,noctx // the test names it
	if err != nil {
		tell("failed", string(out)+err.Error())
		return
	}
	tell("completed", string(out))
	a.say("ran: " + string(out))
}
