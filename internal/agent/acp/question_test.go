package acp

import (
	"encoding/json"
	"strings"
	"testing"
)

// asks returns what the guard is asked about a call, as tool and input.
func asks(t *testing.T, raw string) string {
	t.Helper()
	var part toolCall
	if err := json.Unmarshal([]byte(raw), &part); err != nil {
		t.Fatal(err)
	}
	c := &call{}
	c.take(part)
	var out []string
	for _, q := range c.questions("/work") {
		text := q.Tool + " " + string(q.Input)
		if q.Cwd != "/work" {
			text += " in " + q.Cwd
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestWhatTheGuardIsAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ call, want string }{
		"a command":                   {`{"kind":"execute","title":"bash","rawInput":{"command":"docker ps"}}`, `Bash {"command":"docker ps"}`},
		"a command as words":          {`{"kind":"execute","rawInput":{"command":["ls","a b"]}}`, `Bash {"command":"'ls' 'a b'"}`},
		"a command for a shell":       {`{"kind":"execute","rawInput":{"command":["/bin/bash","-lc","ls | wc"]}}`, `Bash {"command":"ls | wc"}`},
		"a command in a folder":       {`{"kind":"execute","rawInput":{"command":"ls","workdir":"sub"}}`, `Bash {"command":"ls"} in /work/sub`},
		"a command in the back":       {`{"kind":"execute","rawInput":{"command":"ls","is_background":true}}`, `Bash {"command":"ls","run_in_background":true}`},
		"two commands":                {`{"kind":"execute","rawInput":{"command":"ls","cmd":"reboot"}}`, `Bash {}`},
		"a command only in its title": {`{"kind":"execute","title":"ls -l"}`, `Bash {}`},
		"input that is no object":     {`{"kind":"execute","rawInput":"ls"}`, `Bash {}`},
		"reading":                     {`{"kind":"read","rawInput":{"filePath":"/etc/hosts"}}`, `Read {"file_path":"/etc/hosts"}`},
		"reading by location":         {`{"kind":"read","locations":[{"path":"/etc/hosts"}]}`, `Read {"file_path":"/etc/hosts"}`},
		"reading nothing":             {`{"kind":"read"}`, `Read {"file_path":""}`},
		"editing":                     {`{"kind":"edit","rawInput":{"filepath":"/a","diff":"x"}}`, `Write {"file_path":"/a"}`},
		"a patch of two files":        {`{"kind":"edit","rawInput":{"changes":{"/b":{},"/a":{}}}}`, `Write {"file_path":"/a"}; Write {"file_path":"/b"}`},
		"one path under two names":    {`{"kind":"edit","rawInput":{"file_path":"/a","path":"/etc/passwd"}}`, `Write {"file_path":"/a"}; Write {"file_path":"/etc/passwd"}`},
		"deleting":                    {`{"kind":"delete","rawInput":{"path":"/a'b"}}`, `Bash {"command":"rm -- '/a'\\''b'"}`},
		"moving":                      {`{"kind":"move","rawInput":{"from":"/a","to":"/b"}}`, `Bash {"command":"mv -- '/a' '/b'"}`},
		"searching":                   {`{"kind":"search","title":"grep","rawInput":{"pattern":"x","path":"/srv"}}`, `Grep {"path":"/srv"}`},
		"searching names":             {`{"kind":"search","title":"glob","rawInput":{"pattern":"*.pem","path":"/srv"}}`, `Glob {"path":"/srv","pattern":"*.pem"}`},
		"searching here":              {`{"kind":"search","title":"grep","rawInput":{"pattern":"x"}}`, `Grep {"path":"/work"}`},
		"a page":                      {`{"kind":"fetch","rawInput":{"url":"https://example.com/"}}`, `WebFetch {"url":"https://example.com/"}`},
		"a search of the web":         {`{"kind":"fetch","rawInput":{"query":"x"}}`, `WebSearch {"query":"x"}`},
		"a tool of Claude Code":       {`{"kind":"other","title":"x","_meta":{"claudeCode":{"toolName":"Bash"}},"rawInput":{"command":"ls"}}`, `Bash {"command":"ls"}`},
		"a tool of ours":              {`{"kind":"other","title":"claudeops_action_run","rawInput":{"service":"web"}}`, `mcp__claudeops__action_run {"service":"web"}`},
		"a tool of ours, by Claude":   {`{"kind":"other","title":"x","_meta":{"claudeCode":{"toolName":"mcp__claudeops__cooldowns"}}}`, `mcp__claudeops__cooldowns {}`},
		"one that looks like ours":    {`{"kind":"other","title":"claudeops_reboot"}`, `claudeops_reboot {}`},
		"an unknown kind":             {`{"kind":"teleport","title":"beam up","rawInput":{"to":"/"}}`, `beam {"to":"/"}`},
		"no kind":                     {`{}`, `an unnamed tool {}`},
		"thinking":                    {`{"kind":"think","title":"todowrite"}`, `todowrite {}`},
	} {
		if got := asks(t, tt.call); got != tt.want {
			t.Errorf("%s: asked\n%s, want\n%s", name, got, tt.want)
		}
	}
}

func TestTheOutcomeInAMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":1}`: `{"a":1}`,
		"Here it is:\n```json\n{\"a\":1}\n```\nbye": `{"a":1}`,
		`{"no":1} and then {"a":{"b":"}"}}`:         `{"a":{"b":"}"}}`,
		"nothing":                                   ``,
		"{broken":                                   ``,
		"{}":                                        ``,
		"{{{{":                                      ``,
	} {
		if got := string(outcomeIn(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestThePartsOfACallAreJoined(t *testing.T) {
	t.Parallel()
	c := &call{}
	c.take(toolCall{ID: "c", Title: "bash", ToolKind: "execute", Input: json.RawMessage(`{"command":"ls","description":"look"}`)})
	c.take(toolCall{ID: "c", Title: "List files", Input: json.RawMessage(`{}`)})
	if q := c.questions("/"); len(q) != 1 || string(q[0].Input) != `{"command":"ls"}` || c.name() != "bash" {
		t.Errorf("asked %+v", q)
	}
}

func TestEveryProfileCanBeFilled(t *testing.T) {
	t.Parallel()
	for _, p := range Profiles() {
		pl := newPlaces("anthropic/claude-x", map[string]string{"home": "/h", "config": "/c", "work": "/w"},
			map[string]string{"anthropic_url": "http://a", "openai_url": "http://o/v1", "gemini_url": "http://g"})
		for name, text := range p.Env {
			if strings.HasPrefix(text, "{\"") && !json.Valid([]byte(pl.fill(text))) {
				t.Errorf("%s: %s is not JSON: %s", p.Name, name, pl.fill(text))
			}
		}
		for name, text := range p.Files {
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(pl.fill(text))) {
				t.Errorf("%s: %s is not JSON", p.Name, name)
			}
			if file := pl.fill(name); !strings.HasPrefix(file, "/h/") && !strings.HasPrefix(file, "/c/") {
				t.Errorf("%s: %s is outside the folders of the agent", p.Name, name)
			}
		}
		if len(p.Command) == 0 || len(p.Keys) == 0 || p.Hint == "" {
			t.Errorf("%s is not complete", p.Name)
		}
	}
	for model, want := range map[string]string{"anthropic/x": "claude", "openai/x": "gpt", "google/x": "gemini", "ollama/x": "ollama", "x": "opencode"} {
		if got, _ := Family(OpenCode, model); got != want {
			t.Errorf("%s is of %s, want %s", model, got, want)
		}
	}
}
