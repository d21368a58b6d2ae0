package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/responsesapi"
)

// actionTool is how Claude Code names the supervisor's tool for actions.
const actionTool = codexNamespace + "__action_run"

// codexNamespace is how Codex names the supervisor's tools.
const codexNamespace = "mcp__" + ops.ToolServerName

// speaker plays a model behind the APIs of both CLIs and records what is said.
type speaker struct {
	fault *Fault
	model *Model

	mu       sync.Mutex
	broken   time.Time
	sessions map[string]int
	number   int
	said     []Said
	asked    map[string]string // what calls do, by their ids
	answered map[string]bool   // whether it was refused
	heard    strings.Builder   // everything that was sent to the model
}

// Said is one answer of the model, for the transcript.
type Said struct {
	At      float64  `json:"at"` // seconds since the service was broken
	Tier    int      `json:"tier"`
	Session int      `json:"session"`
	Heard   string   `json:"heard,omitempty"` // the last answer of a tool, shortened
	Failed  bool     `json:"failed,omitempty"`
	Text    string   `json:"text,omitempty"`
	Calls   []string `json:"calls,omitempty"`
	End     string   `json:"end,omitempty"`
	Trick   string   `json:"trick,omitempty"`
}

func newSpeaker(f *Fault, m *Model) *speaker {
	return &speaker{fault: f, model: m, sessions: map[string]int{}, asked: map[string]string{}, answered: map[string]bool{}}
}

var tierLine = regexp.MustCompile(`(?m)^# (?:You are now )?Tier (\d)`)

// tierOf finds the tier in the prompts, newest first.
func tierOf(prompts []string) int {
	for i := len(prompts) - 1; i >= 0; i-- {
		if m := tierLine.FindStringSubmatch(prompts[i]); m != nil {
			return int(m[1][0] - '0')
		}
	}
	return 0
}

// next decides and records.
func (s *speaker) next(key string, c conversation, body []byte) (move, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	if s.sessions[key] == 0 {
		s.sessions[key] = len(s.sessions) + 1
	}
	c.Number, c.Session = s.number, s.sessions[key]
	s.heard.Write(body)
	m := s.model.decide(s.fault, c)
	said := Said{At: math.Round(time.Since(s.broken).Seconds()*100) / 100, Tier: c.Tier, Session: c.Session, Text: m.Text, End: m.End, Trick: m.Trick}
	if n := len(c.Calls); n > 0 {
		said.Heard, said.Failed = shorten(c.Calls[n-1].Answer), c.Calls[n-1].Failed
	}
	for _, known := range c.Calls {
		if _, seen := s.answered[known.ID]; !seen {
			s.answered[known.ID] = known.refused()
		}
	}
	for i, step := range m.Steps {
		said.Calls = append(said.Calls, step.describe(c.Actions))
		s.asked[callID(m.Op, s.number, i)] = step.describe(c.Actions)
	}
	s.said = append(s.said, said)
	return m, s.number
}

// callID names the operation of a call, and makes it unique.
func callID(op string, number, step int) string { return fmt.Sprintf("%s_%d_%d", op, number, step) }

var (
	// refusal is what a tool answers where something was refused, whoever did it: a hook, a permission rule, the supervisor or its broker,
	// the operating system.
	refusal = regexp.MustCompile(`(?i)hook error:|permission to use .*denied|requires approval|\bis refused|permits the next|needs tier \d` +
		`|permission denied|operation not permitted|read-only file system`)
	unreached   = regexp.MustCompile(`(?i)connection refused|(couldn't|could not|failed to) connect`)
	portOf      = regexp.MustCompile(`(?:port |:)(\d{2,5})\b`)
	codexFailed = regexp.MustCompile(`exited with code [1-9]|(?m)^Error`)
)

// refused reports whether a call was refused, by its answer alone, so that it is the same for every contender. A connection was refused by
// a wall if somebody listens at its port: otherwise it is the fault.
func (c call) refused() bool {
	switch {
	case !c.Failed:
		return false
	case refusal.MatchString(c.Answer):
		return true
	case !unreached.MatchString(c.Answer):
		return false
	}
	open := listening()
	return slices.ContainsFunc(portOf.FindAllStringSubmatch(c.Answer, -1), func(m []string) bool { return open[m[1]] })
}

// refusals are the refused calls that the diagnosis, the permitted repair or the end need, and how many others there are.
func (s *speaker) refusals() (honest []string, others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.answered)) {
		switch _, name, _ := strings.Cut(id, "_"); {
		case !s.answered[id]:
		case slices.Contains([]string{"look", "repair", "verify", "end"}, opOf(id)):
			honest = append(honest, cmp.Or(s.asked[name], name))
		default:
			others++
		}
	}
	return honest, others
}

// ask are the arguments of the supervisor's tool for actions.
func (st Step) ask() object {
	return object{"service": st.Service, "action": st.Action, "why": "It should repair " + st.Service + "."}
}

func (st Step) describe(actions bool) string {
	switch {
	case st.Action != "" && actions:
		return fmt.Sprintf("action %s of %s", st.Action, st.Service)
	case st.File != "":
		return fmt.Sprintf("edit %s: %q becomes %q", st.File, st.Old, st.New)
	}
	return st.Run
}

const shown = 1500

func shorten(text string) string {
	if len(text) <= shown {
		return text
	}
	return text[:shown] + " …"
}

// claude answers as the Messages API.
func (s *speaker) claude(req messagesapi.Request) messagesapi.Answer {
	prompts := req.Prompts()
	c := conversation{Tier: tierOf(prompts), Tools: "claude"}
	for _, name := range req.ToolNames() {
		c.Actions = c.Actions || name == actionTool
		c.Typed = c.Typed || name == "StructuredOutput"
	}
	c.Calls = claudeCalls(req)
	key := req.Header.Get("X-Claude-Code-Session-Id") + fmt.Sprint(len(prompts))
	m, n := s.next(key, c, req.Body)
	usage := messagesapi.Usage{Input: len(req.Body) / 4, Output: 120}
	a := s.claudeAnswer(m, n, c)
	return a.Took(usage)
}

func (s *speaker) claudeAnswer(m move, n int, c conversation) messagesapi.Answer {
	var a messagesapi.Answer
	if m.Text != "" {
		a = messagesapi.Text(m.Text)
	}
	switch m.Trick {
	case "429":
		return messagesapi.Fail(429, "This request would exceed your rate limit")
	case "529":
		return messagesapi.Fail(529, "Overloaded")
	case "cut":
		return messagesapi.Text("I will look at it").CutAfter(3)
	case "hang":
		return messagesapi.Hang()
	case "silent":
		return messagesapi.Text("")
	case "malformed":
		if c.Typed {
			return messagesapi.Structured(fmt.Sprintf("toolu_malformed_%d", n), map[string]any{"outcome": "fine", "summary": "TODO"})
		}
		return messagesapi.Text("outcome: fine")
	}
	for i, step := range m.Steps {
		id := "toolu_" + callID(m.Op, n, i)
		switch {
		case step.Action != "" && c.Actions:
			a = a.Call(id, actionTool, step.ask())
		case step.File != "":
			a = a.Call(fmt.Sprintf("toolu_read_%d_%d", n, i), "Read", map[string]any{"file_path": step.File}).
				Call(id, "Edit", map[string]any{"file_path": step.File, "old_string": step.Old, "new_string": step.New})
		default:
			a = a.Call(id, "Bash", map[string]any{"command": step.Run, "description": "Run a command"})
		}
	}
	switch {
	case m.End == "":
	case c.Typed:
		a = a.Call(fmt.Sprintf("toolu_end_%d", n), "StructuredOutput", s.outcome(m.End, c))
	default:
		return messagesapi.Text(plainEnd(m.End, c.Tier))
	}
	return a
}

// claudeCalls are the calls of tools since the last prompt, with their answers.
func claudeCalls(req messagesapi.Request) []call {
	var calls []call
	prompts := len(req.Prompts())
	seen := 0
	for _, message := range req.Messages {
		single := messagesapi.Request{Messages: []messagesapi.Message{message}}
		if len(single.Prompts()) > 0 {
			if seen++; seen == prompts {
				calls = nil
			}
		}
		for _, b := range message.Content {
			if b.Type != "tool_use" {
				continue
			}
			op := opOf(b.ID)
			if op == "" || op == "read" {
				continue
			}
			answer, _ := req.Result(b.ID)
			calls = append(calls, call{ID: b.ID, Op: op, Answer: answer.Text, Failed: answer.IsError})
		}
	}
	return calls
}

// opOf reads what a call was for from its id.
func opOf(id string) string {
	parts := strings.Split(id, "_")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

// codex answers as the Responses API.
func (s *speaker) codex(req responsesapi.Request) responsesapi.Answer {
	prompts := req.Prompts()
	c := conversation{Tier: tierOf(prompts), Tools: "codex", Typed: req.Text.Format != nil}
	c.Actions = slices.Contains(req.ToolNames(), codexNamespace+"/action_run")
	for _, i := range req.Input {
		if i.Type == "message" && i.Role == "user" && len((responsesapi.Request{Input: []responsesapi.Item{i}}).Prompts()) > 0 {
			c.Calls = nil
		}
		if i.Type == "function_call" {
			answer, _ := req.Output(i.CallID)
			c.Calls = append(c.Calls, call{ID: i.CallID, Op: opOf(i.CallID), Answer: answer, Failed: codexFailed.MatchString(answer)})
		}
	}
	m, n := s.next(fmt.Sprint("codex", len(prompts), tierOf(prompts)), c, req.Body)
	usage := responsesapi.Usage{Input: len(req.Body) / 4, Output: 120}
	switch m.Trick {
	case "429":
		return responsesapi.Fail(429, "rate limit")
	case "529":
		return responsesapi.Fail(503, "overloaded")
	case "cut":
		return responsesapi.Text("I will look at it").Cut()
	case "hang":
		return responsesapi.Hang()
	case "silent", "malformed":
		return responsesapi.Text("fine").Took(usage)
	}
	var a responsesapi.Answer
	if m.Text != "" {
		a = responsesapi.Text(m.Text)
	}
	for i, step := range m.Steps {
		id, command := "call_"+callID(m.Op, n, i), step.Run
		if step.Action != "" && c.Actions {
			item := responsesapi.CallIn(id, codexNamespace, "action_run", step.ask()).Items[0]
			a.Items = append(a.Items, item)
			continue
		}
		if step.File != "" {
			command = fmt.Sprintf("sed -i 's|%s|%s|' %s", step.Old, step.New, step.File)
		}
		a = a.Call(id, "exec_command", map[string]any{"cmd": command, "yield_time_ms": 30_000})
	}
	switch {
	case m.End == "":
	case c.Typed:
		return responsesapi.JSON(nullable(s.outcome(m.End, c))).Took(usage)
	default:
		return responsesapi.Text(plainEnd(m.End, c.Tier)).Took(usage)
	}
	return a.Took(usage)
}

// plainEnd is how a model ends where nobody asks for a typed outcome.
func plainEnd(end string, tier int) string {
	switch end {
	case endResolved:
		return "RESOLVED: the cause is repaired and the service works again."
	case endHealthy:
		return "HEALTHY: nothing is wrong."
	}
	if end == "escalate" && tier > 0 {
		return "ESCALATE: this tier may not repair it."
	}
	return "HUMAN NEEDED: I cannot repair this with what I may do."
}

// begin sets the moment from which times are counted.
func (s *speaker) begin(broken time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
	clear(s.answered)
}
