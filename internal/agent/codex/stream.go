package codex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

const maxWarnings = 20

// stream is what is known of a session from the events Codex printed so far.
type stream struct {
	thread    string
	began     bool // a turn was started
	completed bool
	failed    bool
	failure   string // what it said when the turn failed
	usage     *usage // of the whole conversation, reported when the turn is complete
	said      string // the last message of the agent
	open      []agent.Call
	warnings  []string
	gates     []string // how a command begins that the gate judges; empty: none is judged
	ungated   []string // the ids of commands that began in another way
}

// systemShell is what Codex starts for a shell that it does not know. The gate is mounted there.
const systemShell = "/bin/sh -"

type streamEvent struct {
	Type     string `json:"type"`
	ThreadID string `json:"thread_id"`
	Usage    *usage `json:"usage"`
	Item     *item  `json:"item"`
	Error    *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Message string `json:"message"`
	Command string `json:"command"`
	Tool    string `json:"tool"`
	Query   string `json:"query"`
	// Arguments of a tool tell one call from another.
	Arguments json.RawMessage `json:"arguments"`
}

// line reads one line of Codex's output and reports whether the open tool calls changed. A line that is not an event is left
// out.
func (st *stream) line(text string) (changed bool) {
	text = strings.TrimLeft(text, " \t")
	if !strings.HasPrefix(text, "{") {
		return false
	}
	var e streamEvent
	if json.Unmarshal([]byte(text), &e) != nil {
		return false
	}
	switch e.Type {
	case "thread.started":
		st.thread = e.ThreadID
	case "turn.started":
		st.began = true
	case "turn.completed":
		st.completed, st.failed, st.usage = true, false, e.Usage
		changed = st.closeAll()
	case "turn.failed":
		st.failed, st.completed = true, false
		if e.Error != nil {
			st.failure = e.Error.Message
		}
		changed = st.closeAll()
	case "item.started", "item.updated":
		changed = e.Item != nil && st.opened(*e.Item)
	case "item.completed":
		changed = e.Item != nil && st.closed(*e.Item)
	}
	return changed
}

// opened notes a call of a tool.
func (st *stream) opened(i item) bool {
	if !isCall(i.Type) || i.ID == "" || slices.ContainsFunc(st.open, func(c agent.Call) bool { return c.ID == i.ID }) {
		return false
	}
	st.checkGate(i)
	st.open = append(st.open, agent.Call{ID: i.ID, Name: i.tool(), Input: i.input()})
	return true
}

// checkGate notes a command that did not begin with the gate: then Codex no longer finds its shells as we know it.
func (st *stream) checkGate(i item) {
	if i.Type != "command_execution" || len(st.gates) == 0 ||
		slices.ContainsFunc(st.gates, func(gate string) bool { return strings.HasPrefix(i.Command, gate) }) {
		return
	}
	st.ungated = append(st.ungated, i.ID)
}

// closed notes what came of an item. What Codex calls an error there is often a mere warning.
func (st *stream) closed(i item) bool {
	switch i.Type {
	case "agent_message":
		st.said = i.Text
	case "error":
		if len(st.warnings) < maxWarnings && i.Message != "" && !slices.Contains(st.warnings, i.Message) {
			st.warnings = append(st.warnings, i.Message)
		}
	}
	st.checkGate(i)
	before := len(st.open)
	st.open = slices.DeleteFunc(slices.Clone(st.open), func(c agent.Call) bool { return c.ID == i.ID })
	return len(st.open) != before
}

func (st *stream) closeAll() bool {
	had := len(st.open) > 0
	st.open = nil
	return had
}

// decoder reads the output of one session.
type decoder struct {
	stream

	tail    tail
	spec    ops.SessionSpec
	home    string // CODEX_HOME
	version string
	prices  ops.Prices
	before  *usage // what the continued conversation had used; nil when that is not known
}

func newDecoder(spec ops.SessionSpec, home, version string, prices ops.Prices) *decoder {
	d := &decoder{spec: spec, home: home, version: version, prices: prices, before: before(spec, home)}
	if gate := gateOf(spec); gate != "" {
		d.gates = []string{shells(gate) + "/", systemShell}
	}
	d.tail = tail{home: home, model: spec.Session.Model, st: &d.stream}
	return d
}

// Line reads one line of output.
func (d *decoder) Line(text string) agent.Progress {
	changed := d.line(text)
	p := agent.Progress{Changed: changed, Open: d.open, Ran: d.ungated}
	d.ungated = nil
	return p
}

// Activities are what a line tells, after what the record of the conversation tells by now.
func (d *decoder) Activities(line string) []ops.Activity {
	return append(d.tail.usage(), activities(line)...)
}

// Finish adds what Codex reported.
func (d *decoder) Finish(res *ops.RunResult, lastError string) {
	st := &d.stream
	res.Warnings = append(res.Warnings, st.warnings...)
	res.CLIVersion, res.Model = d.version, d.spec.Session.Model
	if agent.ValidConversationID(st.thread) {
		res.CLISessionID = st.thread
		path := findRecord(d.home, st.thread)
		res.Conversation = agent.FingerprintOf(path)
		d.figures(res, readRecord(path))
	}
	res.ResultRead, res.IsError = st.completed || st.failed, st.failed
	res.Text = st.said
	if d.spec.OutcomeJSON != "" && st.completed {
		res.Structured = normalized(d.spec.OutcomeJSON, st.said)
	}
	d.judge(res, lastError)
}

// maxOutput bounds how much of a command's output is passed on.
const maxOutput = 4 << 10

// activities are what one line of Codex's output says about the session. It reports only commands, and not all: one that
// its own sandbox stopped is not printed. What the model used is in the record of the conversation (tail.go).
func activities(line string) []ops.Activity {
	if !strings.Contains(line, `"item.`) {
		return nil
	}
	var e struct {
		Type string `json:"type"`
		Item struct {
			item
			Output string `json:"aggregated_output"`
			Exit   *int   `json:"exit_code"`
			Status string `json:"status"`
		} `json:"item"`
	}
	if json.Unmarshal([]byte(line), &e) != nil || !isCall(e.Item.Type) || e.Item.ID == "" {
		return nil
	}
	switch e.Type {
	case "item.started":
		return []ops.Activity{{Kind: ops.ActivityCall, UseID: e.Item.ID, Tool: e.Item.tool(), Input: e.Item.input()}}
	case "item.completed":
		failed := e.Item.Status == "failed" || e.Item.Status == "declined" || e.Item.Exit != nil && *e.Item.Exit != 0
		return []ops.Activity{{
			Kind: ops.ActivityResult, UseID: e.Item.ID, Tool: e.Item.tool(), Failed: failed,
			Output: ops.Ends(e.Item.Output, maxOutput/2, maxOutput/2, " … "),
		}}
	}
	return nil
}

// Activities reads from one stored line of output what the session did.
func (c *Codex) Activities(line string) []ops.Activity { return activities(line) }

// isCall reports whether an item is something the agent did, not something it said.
func isCall(kind string) bool {
	switch kind {
	case "agent_message", "reasoning", "error", "todo_list", "":
		return false
	}
	return true
}

// tool is the name of a tool, the same as with the other agents where it does the same.
func (i item) tool() string {
	if i.Type == "command_execution" {
		return "Bash"
	}
	return i.Type
}

// input is what a tool was called with, as JSON.
func (i item) input() string {
	shown := cmp.Or(transcript.Command(i.Command), strings.TrimSpace(i.Tool+" "+string(i.Arguments)), i.Query)
	data, _ := json.Marshal(map[string]string{"command": shown}) // strings can always be encoded
	return string(data)
}

// maxTail bounds how much of the record is read at once.
const maxTail = 8 << 20

// tail reads the record of a running session for what its calls of the model used: Codex prints that only at its end, too
// late for a budget. It belongs to the goroutine that reads the output.
type tail struct {
	home   string
	model  string
	st     *stream
	path   string
	offset int64
}

// usage are the calls of the model since it was asked last.
func (l *tail) usage() (out []ops.Activity) {
	if l.path == "" {
		if l.path = findRecord(l.home, l.st.thread); l.path == "" {
			return nil
		}
	}
	for line := range bytes.Lines(l.more()) {
		var r recordLine
		if !bytes.Contains(line, []byte(`"token_usage_record"`)) || json.Unmarshal(line, &r) != nil {
			continue
		}
		if r.Type != "token_usage_record" || r.Payload.Usage == nil {
			continue
		}
		u := *r.Payload.Usage
		out = append(out, ops.Activity{
			Kind: ops.ActivityUsage, Message: r.Payload.Response, Model: l.model, InputTokens: u.fresh(), OutputTokens: u.Output,
			CacheReadTokens: u.Cached, CacheWriteTokens: u.CacheWrite,
		})
	}
	return out
}

// more returns the whole lines that were added to the record. Whatever is wrong with it, the session goes on.
func (l *tail) more() []byte {
	// An agent behind walls can replace the file: a link is not followed, a pipe is not waited for.
	file, err := os.OpenFile(l.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() <= l.offset {
		return nil
	}
	data, err := io.ReadAll(io.NewSectionReader(file, l.offset, maxTail))
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) == maxTail {
		end = len(data) // no line of ours is that long
	}
	l.offset += int64(end)
	return data[:end]
}

// usage are tokens as Codex counts them: what was cached is part of the input, reasoning is part of the output.
type usage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (u usage) minus(o usage) usage {
	return usage{
		Input: max(u.Input-o.Input, 0), Cached: max(u.Cached-o.Cached, 0),
		CacheWrite: max(u.CacheWrite-o.CacheWrite, 0), Output: max(u.Output-o.Output, 0),
	}
}

func (u usage) plus(o usage) usage {
	return usage{
		Input: u.Input + o.Input, Cached: u.Cached + o.Cached,
		CacheWrite: u.CacheWrite + o.CacheWrite, Output: u.Output + o.Output,
	}
}

// fresh is the input that was neither read from the cache nor written to it.
func (u usage) fresh() int64 { return max(u.Input-u.Cached-u.CacheWrite, 0) }

// cost is what the tokens cost.
func cost(p ops.Price, u usage) float64 {
	const million = 1_000_000
	if p.CacheWrite == 0 {
		p.CacheWrite = p.Input // a table for models that do not charge it apart leaves it out
	}
	return (float64(u.fresh())*p.Input + float64(u.Cached)*p.CacheRead +
		float64(u.CacheWrite)*p.CacheWrite + float64(u.Output)*p.Output) / million
}

// before is what the conversation that is continued had used. Codex goes on counting from there.
func before(spec ops.SessionSpec, home string) *usage {
	if spec.Resume == "" {
		return &usage{}
	}
	path := spec.Conversation.Path
	if path == "" {
		path = findRecord(home, spec.Resume)
	}
	return readRecord(path).thread
}

// figures are the numbers of this run only. The four kinds of tokens do not overlap, as with the other agents.
func (d *decoder) figures(res *ops.RunResult, kept ledger) {
	if kept.calls > 0 {
		res.NumTurns = ops.Ptr(kept.calls)
	}
	if kept.context > 0 {
		res.ContextTokens = ops.Ptr(kept.context)
	}
	if kept.window > 0 {
		res.ContextWindow = ops.Ptr(kept.window)
	}
	reported := d.usage
	own := kept.own // a turn that did not complete is only in the record
	if reported != nil && d.before != nil {
		own = ops.Ptr(reported.minus(*d.before))
	}
	if own == nil {
		if reported != nil {
			res.Warnings = append(res.Warnings,
				"the tokens of this run are not known: the record of the conversation it continues does not tell what that had used")
		}
		return
	}
	res.InputTokens, res.OutputTokens = ops.Ptr(own.fresh()), ops.Ptr(own.Output)
	res.CacheReadTokens, res.CacheWriteTokens = ops.Ptr(own.Cached), ops.Ptr(own.CacheWrite)
	if price, ok := d.prices.Of(d.spec.Session.Model); ok {
		res.CostUSD = ops.Ptr(cost(price, *own))
	}
}
