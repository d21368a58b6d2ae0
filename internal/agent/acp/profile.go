package acp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Profile is what is known of one CLI. Texts may hold {model}, {home}, {config}, {work}, and the addresses of the models' APIs:
// {anthropic_url}, {openai_url} and {gemini_url}.
type Profile struct {
	Name    string
	Family  string            // the maker of its models; empty where that depends on the model
	Command []string          // the program and its arguments
	Env     map[string]string // set for the CLI
	Files   map[string]string // written before it starts, below {home} or {config}; its setting to ask about everything is here or in Env
	Keys    []string          // the variables that hold its keys
	Passes  []string          // further variables that pass to it
	// AsksLate: it reports a call as in progress before it asks about it.
	AsksLate bool
	// Record is the file that holds a conversation, with {id} for its id; a pattern. Empty: no conversation is continued.
	Record string
	// Beside is a folder of files that belong to the record; empty without one.
	Beside string
	// Adds: the cost it tells after a fork contains that of the conversation it continues.
	Adds bool
	Hint string // how it is installed
}

// The profiles that are built in.
const (
	ClaudeAgent = "claude-agent-acp"
	OpenCode    = "opencode"
	Qwen        = "qwen-code"
)

// Variables of the APIs.
const (
	anthropicURL = "ANTHROPIC_BASE_URL"
	openaiURL    = "OPENAI_BASE_URL"
	geminiURL    = "GOOGLE_GEMINI_BASE_URL"
	openaiKey    = "OPENAI_API_KEY"
	geminiKey    = "GEMINI_API_KEY"
)

func anthropicKeys() []string {
	return []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}
}

// Profiles is the table of the CLIs that are known.
func Profiles() []Profile {
	return []Profile{
		{
			Name: ClaudeAgent, Family: "claude", Command: []string{"claude-agent-acp"},
			Keys: anthropicKeys(), Passes: []string{anthropicURL},
			Env: map[string]string{
				"CLAUDE_CONFIG_DIR": "{config}", "ANTHROPIC_MODEL": "{model}", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
				"DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
				"CLAUDE_CODE_MAX_RETRIES": "2", // the ladder decides about more
			},
			// Without these rules it runs what it takes for reading unasked, such as ls or docker ps.
			Files: map[string]string{"{config}/settings.json": `{"permissions":{"defaultMode":"default",` +
				`"ask":["Bash","Read","Grep","Glob","LS","Edit","MultiEdit","Write","NotebookEdit","WebFetch","WebSearch","mcp__claudeops"],` +
				`"deny":["Task","Agent","Workflow","Skill","SendMessage","ScheduleWakeup","EnterWorktree","CronCreate","TodoWrite"]}}`},
			Record: "{config}/projects/*/{id}.jsonl",
			Hint:   "install it with npm install -g @agentclientprotocol/claude-agent-acp",
		},
		{
			Name: OpenCode, Command: []string{"opencode", "acp"},
			Keys: append(anthropicKeys()[:1], openaiKey, geminiKey),
			Env: map[string]string{
				"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
				"OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_CLAUDE_CODE": "1", "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
				"OPENCODE_DISABLE_SHARE": "1", "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1", "OPENCODE_PURE": "1",
				"OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER": "1",
				// Otherwise it fetches a package for plugins while it starts.
				"npm_config_offline": "true", "npm_config_registry": "http://127.0.0.1:9",
				"OPENCODE_CONFIG_CONTENT": `{"model":"{model}","small_model":"{model}","autoupdate":false,"share":"disabled","snapshot":false,` +
					// A folder outside is no question of its own: the call that uses it is asked about.
					`"permission":{"*":"ask","external_directory":"allow","doom_loop":"deny","task":"deny","skill":"deny","todowrite":"deny",` +
					`"todoread":"deny","question":"deny","plan_enter":"deny","plan_exit":"deny"},` +
					`"experimental":{"continue_loop_on_deny":true},` +
					`"provider":{"anthropic":{"options":{"baseURL":"{anthropic_url}/v1"}},` +
					`"openai":{"options":{"baseURL":"{openai_url}"}},"google":{"options":{"baseURL":"{gemini_url}/v1beta"}}}}`,
			},
			AsksLate: true, Record: "{home}/.local/share/opencode/opencode.db", Beside: "{home}/.local/share/opencode", Adds: true,
			Hint: "install it with npm install -g opencode-ai",
		},
		{
			Name: Qwen, Family: "qwen", Command: []string{"qwen", "--acp", "--model", "{model}"},
			Keys: []string{openaiKey}, Passes: []string{openaiURL},
			Env: map[string]string{"OPENAI_MODEL": "{model}", "QWEN_TELEMETRY_ENABLED": "false", "NO_BROWSER": "1"},
			// Its other tools do not ask, and neither does the agent that keeps notes after a turn.
			Files: map[string]string{"{home}/.qwen/settings.json": `{"security":{"auth":{"selectedType":"openai"}},` +
				`"tools":{"approvalMode":"default",` +
				`"core":["run_shell_command","read_file","grep_search","glob","edit","write_file","web_fetch"],"toolSearch":{"enabled":false}},` +
				`"permissions":{"ask":["Bash","Read","Grep","Glob","Edit","Write","WebFetch","mcp__claudeops"],` +
				`"deny":["agent","list_agents","skill","ask_user_question","enter_plan_mode","exit_plan_mode","get_goal","update_goal",` +
				`"enter_worktree","exit_worktree","record_artifact","report_findings","send_message","task_stop"]},` +
				`"memory":{"enableManagedAutoMemory":false,"enableManagedAutoDream":false,"enableAutoSkill":false},` +
				`"general":{"enableAutoUpdate":false,"disableAutoUpdate":true},"privacy":{"usageStatisticsEnabled":false}}`},
			Hint: "install it with npm install -g @qwen-code/qwen-code (it needs Node 22 or newer)",
		},
	}
}

// Find returns the profile of a name, as the operator changed it.
func Find(name string, changes []Profile) (Profile, bool) {
	var found Profile
	for _, list := range [][]Profile{Profiles(), changes} {
		for _, p := range list {
			if p.Name == name {
				found = found.with(p)
			}
		}
	}
	return found, found.Name != ""
}

// Family is the maker of a model in a profile that is built in, and whether there is such a profile.
func Family(name, model string) (family string, known bool) {
	p, known := Find(name, nil)
	if !known {
		return "", false
	}
	return p.FamilyOf(model), true
}

// Changed are the profiles of the operator.
func Changed(own []ops.AgentProfile) []Profile {
	out := make([]Profile, len(own))
	for i, o := range own {
		out[i] = Profile{Name: o.Name, Command: o.Command, Env: map[string]string{}, Keys: o.Keys}
		for _, v := range o.Env {
			name, value, _ := strings.Cut(v, "=")
			out[i].Env[name] = value
		}
	}
	return out
}

// All are the profiles that are built in, as the operator changed them, and those that the operator added.
func All(own []ops.AgentProfile) []Profile {
	changes := Changed(own)
	names := Names()
	for _, p := range changes {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	out := make([]Profile, 0, len(names))
	for _, name := range names {
		p, _ := Find(name, changes)
		out = append(out, p)
	}
	return out
}

// Names are those of the profiles that are built in.
func Names() []string {
	var out []string
	for _, p := range Profiles() {
		out = append(out, p.Name)
	}
	return out
}

// with is the profile with what another one sets.
func (p Profile) with(o Profile) Profile {
	p.Name = o.Name
	if o.Family != "" {
		p.Family = o.Family
	}
	if len(o.Command) > 0 {
		p.Command = o.Command
	}
	p.Env, p.Files = merged(p.Env, o.Env), merged(p.Files, o.Files)
	p.Keys, p.Passes = append(slices.Clone(p.Keys), o.Keys...), append(slices.Clone(p.Passes), o.Passes...)
	p.AsksLate, p.Adds = p.AsksLate || o.AsksLate, p.Adds || o.Adds
	if o.Record != "" {
		p.Record, p.Beside = o.Record, o.Beside
	}
	if o.Hint != "" {
		p.Hint = o.Hint
	}
	return p
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// FamilyOf is the maker of a model that runs in a CLI, where the operator does not name it. CLIs for many models put it before the name.
func (p Profile) FamilyOf(model string) string {
	if p.Family != "" {
		return p.Family
	}
	provider, _ := split(model)
	switch provider {
	case "anthropic":
		return "claude"
	case "openai":
		return "gpt"
	case "google":
		return "gemini"
	case "":
		return p.Name
	}
	return provider
}

// split cuts the name of a model in two: the provider, where it is named, and the model.
func split(model string) (provider, name string) {
	if provider, name, ok := strings.Cut(model, "/"); ok {
		return provider, name
	}
	return "", model
}

// Digest identifies what a trial of the CLI depended on: another command or setting needs another trial.
func (p Profile) Digest() string {
	data, _ := json.Marshal([]any{p.Command, p.Env, p.Files}) // strings can always be encoded
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// places fills the texts of a profile.
type places struct{ replacer *strings.Replacer }

func newPlaces(model string, folders map[string]string, urls map[string]string) places {
	pairs := []string{"{model}", model}
	for _, m := range []map[string]string{folders, urls} {
		for key, value := range m {
			pairs = append(pairs, "{"+key+"}", value)
		}
	}
	return places{strings.NewReplacer(pairs...)}
}

func (p places) fill(text string) string { return p.replacer.Replace(text) }

func (p places) all(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = p.fill(t)
	}
	return out
}

// price is that of a model, whose name may begin with its provider.
func price(prices ops.Prices, model string) (ops.Price, bool) {
	if p, ok := prices.Of(model); ok {
		return p, true
	}
	_, name := split(model)
	return prices.Of(name)
}
