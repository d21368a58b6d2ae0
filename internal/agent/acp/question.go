package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// The tools of the guard.
const (
	toolBash   = "Bash"
	toolRead   = "Read"
	toolWrite  = "Write"
	toolGrep   = "Grep"
	toolGlob   = "Glob"
	toolFetch  = "WebFetch"
	toolSearch = "WebSearch"
)

// input is what a call is given, as far as CLIs name it. Each of them has its own names for the same thing.
type input map[string]json.RawMessage

// text returns the first of the fields that is a text.
func (in input) text(names ...string) string {
	for _, name := range names {
		var s string
		if json.Unmarshal(in[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

func pathNames() []string {
	return []string{
		"file_path", "filePath", "filepath", "path", "absolute_path", "abs_path", "dir_path", "notebook_path", "directory", "dir",
	}
}

// command is the command of a call, given as text or as a list of words. A shell around one text is taken off: the text is judged.
func (in input) command() string {
	one, other := in.commandOf("command"), in.commandOf("cmd")
	if one != "" && other != "" && one != other {
		return "" // nobody knows which of them would run
	}
	return cmp.Or(one, other)
}

func (in input) commandOf(name string) string {
	if s := in.text(name); s != "" {
		return s
	}
	var words []string
	if json.Unmarshal(in[name], &words) != nil || len(words) == 0 {
		return ""
	}
	if len(words) == 3 && (words[1] == "-c" || words[1] == "-lc") && slices.Contains([]string{"sh", "bash"}, filepath.Base(words[0])) {
		return words[2]
	}
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// questions are what the guard is asked about a call: all of them must be allowed. What a call does is read from its input, never from
// its title, which is written for people.
func (c *call) questions(work string) []ops.ToolQuestion {
	q := asked{id: c.ID, cwd: work, in: input{}}
	_ = json.Unmarshal(c.Input, &q.in) // whatever is no object has no fields, and is refused for that
	if dir := q.in.text("workdir", "cwd", "working_directory", "directory"); dir != "" && c.kind() == "execute" {
		q.cwd = dir
		if !filepath.IsAbs(dir) {
			q.cwd = filepath.Join(work, dir)
		}
	}
	if tool, ok := ownTool(c.name()); ok {
		return q.one(tool, q.in)
	}
	switch c.kind() {
	case "execute":
		return q.bash(q.in.command())
	case "read":
		return q.each(c.paths(q.in), func(p string) []ops.ToolQuestion { return q.one(toolRead, fields{"file_path": p}) })
	case "edit":
		return q.each(c.paths(q.in), func(p string) []ops.ToolQuestion { return q.one(toolWrite, fields{"file_path": p}) })
	case "delete":
		return q.each(c.paths(q.in), func(p string) []ops.ToolQuestion { return q.bash("rm -- " + quoted(p)) })
	case "move":
		if from, to := q.in.text("from", "source", "old_path"), q.in.text("to", "destination", "new_path"); from != "" && to != "" {
			return q.bash("mv -- " + quoted(from) + " " + quoted(to))
		}
	case "search":
		return q.search(c)
	case "fetch":
		if url := q.in.text("url"); url != "" {
			return q.one(toolFetch, fields{"url": url})
		}
		if query := q.in.text("query"); query != "" {
			return q.one(toolSearch, fields{"query": query})
		}
	}
	// The guard refuses what it does not know.
	return q.one(c.name(), q.in)
}

type fields map[string]string

// asked makes the questions of one call.
type asked struct {
	id, cwd string
	in      input
}

func (q asked) one(tool string, in any) []ops.ToolQuestion {
	raw, err := json.Marshal(in)
	if err != nil {
		raw = json.RawMessage(`{}`)
	}
	return []ops.ToolQuestion{{ID: q.id, Tool: tool, Input: raw, Cwd: q.cwd}}
}

// bash asks about a command. What would take it out of sight is refused by the guard, so it is told, too.
func (q asked) bash(command string) []ops.ToolQuestion {
	in := map[string]any{}
	if command != "" {
		in["command"] = command
	}
	for _, name := range []string{"run_in_background", "is_background", "background", "dangerouslyDisableSandbox"} {
		if raw, ok := q.in[name]; ok && string(raw) != "false" && string(raw) != "null" {
			in["run_in_background"] = true
		}
	}
	return q.one(toolBash, in)
}

// each asks about all paths of a call; one without a path is refused for that.
func (q asked) each(paths []string, ask func(path string) []ops.ToolQuestion) []ops.ToolQuestion {
	if len(paths) == 0 {
		return ask("")
	}
	var out []ops.ToolQuestion
	for _, p := range paths {
		out = append(out, ask(p)...)
	}
	return out
}

func (q asked) search(c *call) []ops.ToolQuestion {
	path := q.in.text(pathNames()...)
	if path == "" {
		path = q.cwd
	}
	if pattern := q.in.text("pattern", "glob"); strings.EqualFold(c.name(), toolGlob) && pattern != "" {
		return q.one(toolGlob, fields{"path": path, "pattern": pattern})
	}
	return q.one(toolGrep, fields{"path": path})
}

// paths are the files that a call names: in its input, in the changes of a patch, or else in its locations.
func (c *call) paths(in input) []string {
	var out []string
	for _, name := range pathNames() {
		if p := in.text(name); p != "" {
			out = append(out, p)
		}
	}
	for _, name := range []string{"changes", "files"} {
		var byPath map[string]json.RawMessage
		var list []struct {
			Path string `json:"path"`
			File string `json:"filePath"`
		}
		switch {
		case json.Unmarshal(in[name], &byPath) == nil:
			for p := range byPath {
				out = append(out, p)
			}
		case json.Unmarshal(in[name], &list) == nil:
			for _, one := range list {
				out = append(out, one.Path+one.File)
			}
		}
	}
	if len(out) == 0 {
		for _, l := range c.Locations {
			out = append(out, l.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ownTool is a tool of the supervisor's MCP server. CLIs join the names of server and tool in different ways.
func ownTool(name string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "mcp__"), ops.ToolServerName)
	if !ok {
		return "", false
	}
	rest = strings.TrimLeft(rest, "_.:/- ")
	return "mcp__" + ops.ToolServerName + "__" + rest, slices.Contains(ops.SessionTools(), rest)
}

// outcomeIn finds the object that an agent was asked for in its last message: the whole of it, or the last object in it. Whether it
// fits the schema is checked where all outcomes are.
func outcomeIn(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	var last json.RawMessage
	for i := 0; i < len(text); {
		start := strings.IndexByte(text[i:], '{')
		if start < 0 {
			break
		}
		i += start
		dec := json.NewDecoder(strings.NewReader(text[i:]))
		var object map[string]json.RawMessage
		if dec.Decode(&object) != nil {
			i++
			continue
		}
		end := i + int(dec.InputOffset())
		if len(object) > 0 {
			last = json.RawMessage(text[i:end])
		}
		i = end
	}
	return last
}

// instruction tells an agent the form of its answer: the protocol has none for it.
func instruction(schema string) string {
	return "\n\n## Your answer\n\nEnd with one message that is a single JSON object and nothing else: no text before or after it, " +
		"and no code fence. It must fit this JSON Schema:\n\n" + schema + "\n"
}

// permission decides about one call. It is allowed once, or refused.
func (c *client) permission(raw json.RawMessage) outcomeOf {
	cancelled := outcomeOf{Outcome: "cancelled"}
	var p permissionParams
	if json.Unmarshal(raw, &p) != nil || c.phase != running || p.SessionID != c.session {
		return cancelled
	}
	pick := func(kind string) (outcomeOf, bool) {
		i := slices.IndexFunc(p.Options, func(o option) bool { return o.Kind == kind && o.ID != "" })
		if i < 0 {
			return cancelled, false
		}
		return outcomeOf{Outcome: "selected", Option: p.Options[i].ID}, true
	}
	allow, can := pick(allowOnce)
	reject, _ := pick(rejectOnce)
	call, allowed := c.calls.ask(p.Call, func(q []ops.ToolQuestion) bool { return c.judge(q, can) })
	if allowed && can {
		return allow
	}
	call.allowed = false
	return reject
}

// judge asks the guard. Nothing is allowed where the CLI would take an answer for more than this call.
func (c *client) judge(questions []ops.ToolQuestion, once bool) bool {
	if c.trial != nil {
		c.trial.asked(questions)
		return false
	}
	for _, q := range questions {
		allowed, reason := false, "This call is refused because the agent CLI offers no way to allow it only once."
		if once {
			allowed, reason = c.spec.Gate.Ask(q)
		}
		if !allowed {
			text := agent.Call{Name: q.Tool, Input: string(q.Input)}.String()
			c.refused = append(c.refused, text+"\n  "+reason)
			return false
		}
	}
	return len(questions) > 0
}
