package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

const (
	// maxSaid bounds what is kept of the agent's last words.
	maxSaid = 1 << 20
	// maxTurns bounds how often the agent is told what was refused.
	maxTurns = 8
	// maxRequests bounds the requests of one CLI whose ids are remembered.
	maxRequests = 100_000
	// maxWarnings bounds what is told of a CLI that does not keep to the protocol.
	maxWarnings = 10
)

// phase is how far a session is.
type phase int

const (
	starting phase = iota // the CLI was asked what it can do
	opening               // a session is being opened; what it tells is history
	setting               // its model is being set
	running               // a prompt is being answered
	over                  // nothing more is expected
)

// client leads one conversation. It answers in the order in which it is asked, from the goroutine that reads the output.
type client struct {
	spec    ops.SessionSpec
	profile Profile
	version string // the one that is trusted
	prompt  string
	work    string
	wire    *wire
	trial   *trial // of a canary; nil otherwise

	phase   phase
	sent    int64
	pending map[string]string // our requests that are not answered: methods by id
	seen    map[string]bool   // the ids of the CLI's requests

	session  string
	closes   bool // it can close a session, and then leaves no process behind
	resumed  bool // it continues a conversation
	calls    *ledger
	refused  []string // the calls that were refused in this turn, with the reason
	turns    int
	said     strings.Builder
	fresh    bool   // the next text begins a message
	reason   string // why the last turn ended
	failure  *failure
	usage    *usage
	cost     *float64 // in USD, as it was told last
	used     int64
	size     int64
	garbage  int
	warnings []string
}

type failure struct {
	class  ops.FailureClass
	text   string
	status *int
}

// begin sends the first message.
func (c *client) begin() {
	p := initializeParams{Version: protocolVersion, Client: implementation{Name: "claudeops", Version: "1"}}
	c.request(methodInitialize, p)
}

// request sends a request of ours.
func (c *client) request(method string, p any) {
	c.sent++
	id := strconv.FormatInt(c.sent, 10)
	c.pending[id] = method
	c.wire.send(message{ID: json.RawMessage(id), Method: method, Params: params(p)})
}

// line takes one line of output.
func (c *client) line(text string) {
	m, ok := parse(text)
	switch {
	case !ok:
		if strings.TrimSpace(text) != "" {
			c.garbage++
		}
	case m.Method != "" && len(m.ID) > 0:
		c.answer(m)
	case m.Method == methodUpdate:
		c.update(m)
	case m.Method != "": // other notifications say nothing that matters
	case len(m.ID) > 0:
		c.answered(m)
	}
}

// answer answers a request of the CLI. It gets no files and no terminals: only what it asks for permission.
func (c *client) answer(m message) {
	if !usableID(m.ID) {
		c.warn("it sent a request whose id is neither a text nor a number")
		return
	}
	id := string(bytes.TrimSpace(m.ID))
	if c.seen[id] || len(c.seen) >= maxRequests {
		c.warn("it sent two requests with the same id; the second one was refused")
		c.wire.send(message{ID: m.ID, Error: &rpcError{Code: errRequest, Message: "this id was used before"}})
		return
	}
	c.seen[id] = true
	if m.Method != methodPermission {
		c.wire.send(message{ID: m.ID, Error: &rpcError{Code: errMethod, Message: "this client does not offer " + m.Method}})
		return
	}
	c.wire.send(message{ID: m.ID, Result: params(permissionResult{Outcome: c.permission(m.Params)})})
}

// update takes what the session tells. Before a prompt was sent it is history.
func (c *client) update(m message) {
	var p updateParams
	if c.phase != running || json.Unmarshal(m.Params, &p) != nil {
		return
	}
	u := p.Update
	switch u.Kind {
	case "agent_message_chunk":
		if p.SessionID == c.session {
			c.say(u)
		}
	case "tool_call", "tool_call_update":
		c.fresh = true
		c.calls.update(u.toolCall)
		if c.trial != nil && len(c.calls.ran) > 0 {
			c.trial.unasked = c.calls.ran[0]
			c.end()
		}
	case "usage_update":
		c.used, c.size = max(u.Used, 0), max(u.Size, 0)
		if u.Cost != nil && strings.EqualFold(u.Cost.Currency, "USD") && u.Cost.Amount >= 0 {
			c.cost = &u.Cost.Amount
		}
	}
}

// say adds to the agent's words. A message after a tool call replaces the one before it.
func (c *client) say(u update) {
	var block textBlock
	if json.Unmarshal(u.Content, &block) != nil || block.Type != "text" {
		return
	}
	if c.fresh {
		c.said.Reset()
		c.fresh = false
	}
	if c.said.Len()+len(block.Text) <= maxSaid {
		c.said.WriteString(block.Text)
	}
}

// answered takes the answer to a request of ours. One that nobody waits for changes nothing.
func (c *client) answered(m message) {
	id := string(bytes.TrimSpace(m.ID))
	method, ok := c.pending[id]
	if !ok {
		c.warn("it answered a request that was not made or was answered before")
		return
	}
	delete(c.pending, id)
	if m.Error != nil {
		c.rejected(method, m.Error)
		return
	}
	switch method {
	case methodInitialize:
		c.initialized(m.Result)
	case methodNew, methodFork, methodResume, methodLoad:
		c.opened(m.Result)
	case methodSetModel, methodSetOption:
		c.ask(c.prompt)
	case methodPrompt:
		c.prompted(m.Result)
	case methodClose:
		c.wire.close()
	}
}

// initialized opens the session, if the CLI is the one that is trusted.
func (c *client) initialized(raw json.RawMessage) {
	var told initialized
	if json.Unmarshal(raw, &told) != nil || told.Version != protocolVersion {
		c.fail(ops.FailureTooOld, fmt.Sprintf("it speaks version %d of the Agent Client Protocol, not %d", told.Version, protocolVersion))
		return
	}
	if told.Agent.Version != "" && told.Agent.Version != c.version {
		c.fail(ops.FailureTooOld, fmt.Sprintf("it is version %s by now, and not %s, which was tried", told.Agent.Version, c.version))
		return
	}
	c.closes = offered(told.Can.Session.Close)
	p := sessionParams{Cwd: c.work, Servers: c.servers()}
	method := methodNew
	if c.spec.Resume != "" {
		if method = told.continues(); method == "" {
			c.fail(ops.FailureResumeRefused, "it cannot continue a conversation")
			return
		}
		p.SessionID, c.resumed = c.spec.Resume, true
	}
	c.phase = opening
	c.request(method, p)
}

// servers are the MCP servers of the session: the supervisor's own tools.
func (c *client) servers() []mcpServer {
	if c.spec.Gate == nil || len(c.spec.Gate.Tools.MCP) == 0 {
		return []mcpServer{}
	}
	argv := c.spec.Gate.Tools.MCP
	return []mcpServer{{
		Name: ops.ToolServerName, Command: argv[0], Args: argv[1:],
		Env: []variable{{Name: "CLAUDEOPS_SESSION_KEY", Value: c.spec.Session.Key}},
	}}
}

// opened sets the model and sends the prompt.
func (c *client) opened(raw json.RawMessage) {
	var told opened
	if json.Unmarshal(raw, &told) != nil {
		told = opened{}
	}
	c.session = told.SessionID
	if c.session == "" && c.resumed {
		c.session = c.spec.Resume // a conversation that goes on keeps its id
	}
	if c.session == "" {
		c.fail(ops.FailureAgent, "it opened a session without an id")
		return
	}
	c.phase = setting
	model := c.spec.Session.Model
	if m := told.Models; model != "" && m != nil && m.Current != model &&
		slices.ContainsFunc(m.Available, func(a struct {
			ID string `json:"modelId"`
		},
		) bool {
			return a.ID == model
		}) {
		c.request(methodSetModel, setModelParams{SessionID: c.session, Model: model})
		return
	}
	for _, o := range told.Options {
		if o.Category == "model" && model != "" && string(o.Current) != strconv.Quote(model) && o.offers(model) {
			c.request(methodSetOption, setOptionParams{SessionID: c.session, Option: o.ID, Value: model})
			return
		}
	}
	c.ask(c.prompt)
}

// ask sends a prompt.
func (c *client) ask(text string) {
	c.phase, c.fresh = running, true
	c.turns++
	c.refused = nil
	c.request(methodPrompt, promptParams{SessionID: c.session, Prompt: []textBlock{{Type: "text", Text: text}}})
}

// prompted takes the end of a turn. The protocol has no place for the reason of a refusal, so an agent that gave up without an outcome
// is told it in another turn.
func (c *client) prompted(raw json.RawMessage) {
	var told prompted
	_ = json.Unmarshal(raw, &told) // without a reason it failed
	if told.Usage != nil {
		sum := *told.Usage
		if c.usage != nil {
			sum = c.usage.plus(*told.Usage)
		}
		c.usage = &sum
	}
	c.reason = told.Reason
	c.calls.closeAll()
	if c.trial == nil && len(c.refused) > 0 && c.turns < maxTurns && c.spec.OutcomeJSON != "" && outcomeIn(c.said.String()) == nil {
		c.ask("These tool calls were refused by the guard:\n\n- " + strings.Join(c.refused, "\n- ") +
			"\n\nGo on without them or in another way that is allowed, and end with the JSON object that you were asked for.")
		return
	}
	c.stopped()
	c.end()
}

// stopped judges why the last turn ended.
func (c *client) stopped() {
	switch c.reason {
	case "end_turn":
	case "max_tokens":
		c.failure = &failure{class: ops.FailureOutputLimit, text: "the model's answer was too long"}
	case "max_turn_requests":
		c.failure = &failure{class: ops.FailureMaxTurns, text: "it reached its own limit of turns"}
	case "refusal":
		c.failure = &failure{class: ops.FailureRefusal, text: "the model refused to answer"}
	case "cancelled":
		c.failure = &failure{class: ops.FailureAgent, text: "it cancelled its turn"}
	default:
		c.failure = &failure{class: ops.FailureAgent, text: fmt.Sprintf("its turn ended for the unknown reason %q", c.reason)}
	}
}

// rejected takes an error that the CLI answered.
func (c *client) rejected(method string, e *rpcError) {
	switch {
	case method == methodClose:
		c.wire.close()
	case method == methodSetModel || method == methodSetOption:
		c.fail(ops.FailureModelNotFound, "it refused the model "+c.spec.Session.Model+": "+e.text())
	case e.Code == errAuth:
		c.fail(ops.FailureAgent, fmt.Sprintf("it has no key for the API (set %s): %s", strings.Join(c.profile.Keys, " or "), e.text()))
	case method == methodFork || method == methodResume || method == methodLoad:
		c.fail(ops.FailureResumeRefused, "it could not continue the conversation: "+e.text())
	default:
		c.failure = reported(e.text())
		c.end()
	}
}

func (c *client) fail(class ops.FailureClass, text string) {
	c.failure = &failure{class: class, text: c.profile.Name + ": " + text}
	c.end()
}

// end closes the session, and then the CLI's input, so that it exits.
func (c *client) end() {
	which := sessionID{c.session}
	if c.phase == running && len(c.pending) > 0 {
		c.wire.send(message{Method: methodCancel, Params: params(which)})
	}
	c.phase = over
	c.calls.closeAll()
	if c.closes && c.session != "" {
		c.request(methodClose, which)
		c.wire.closeSoon()
		return
	}
	c.wire.close()
}

func (c *client) warn(text string) {
	if len(c.warnings) < maxWarnings && !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// Compiled once; read only. CLIs put the status of the API into their messages.
var statusShape = ops.Pattern(`(?i)(?:api error|status(?: code)?|http(?: error)?|answered)[":= ]*\(?([45]\d\d)\b`)

// reported reads the error of a turn.
func reported(text string) *failure {
	f := &failure{class: ops.FailureAgent, text: text}
	m := statusShape().FindStringSubmatch(text)
	if m == nil {
		return f
	}
	if status, err := strconv.Atoi(m[1]); err == nil {
		f.class, f.status, f.text = ops.FailureAPI, &status, "the API answered "+m[1]+": "+text
	}
	return f
}
