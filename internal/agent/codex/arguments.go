package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

const (
	keyVariable  = "OPENAI_API_KEY"
	urlVariable  = "OPENAI_BASE_URL"
	usualURL     = "https://api.openai.com/v1"
	providerName = "claudeops"
	maxSetting   = 100_000 // longer texts do not fit into an argument
	// toolTimeout is above the longest time limit of an action.
	toolTimeout = 45 * time.Minute
)

// switchedOff are the parts of Codex that a session has no use for, or that reach out to other hosts, other agents or
// files an earlier session may have written.
func switchedOff() []string {
	return []string{
		"api_key_model_discovery", "apps", "browser_use", "computer_use", "daemon_auto_start", "goals", "hooks", "image_generation",
		"in_app_browser", "memories", "multi_agent", "plugin_discovery_prefetch", "plugins", "remote_plugin", "shell_snapshot",
		"skill_search", "sleep_tool", "tool_suggest", "view_image",
	}
}

// arguments builds what comes after the name of the program, and the prompt, which always goes to the standard input.
func arguments(spec ops.SessionSpec, readOnly bool, schema string) (args []string, prompt string) {
	prompt = strings.ReplaceAll(spec.Prompt, "\x00", "")
	system := strings.ReplaceAll(spec.SystemPrompt, "\x00", "")
	if len(system) > maxSetting {
		prompt, system = system+"\n\n"+prompt, ""
	}
	args = []string{"exec"}
	if spec.Resume != "" {
		args = append(args, "fork")
	}
	args = append(args, "--json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules", "--strict-config")
	for _, feature := range switchedOff() {
		args = append(args, "--disable", feature)
	}
	settings := settings(spec)
	maps.Copy(settings, sandboxSettings(readOnly))
	if system != "" {
		settings["developer_instructions"] = quote(system)
	}
	maps.Copy(settings, toolSettings(spec))
	args = append(args, options(settings)...)
	if spec.Session.Model != "" {
		args = append(args, "--model", spec.Session.Model)
	}
	if schema != "" {
		args = append(args, "--output-schema", schema)
	}
	if spec.Resume != "" {
		args = append(args, spec.Resume)
	}
	return append(args, "-"), prompt
}

// settings are the configuration of every session, as TOML. No file of the user is read.
func settings(spec ops.SessionSpec) map[string]string {
	url := agent.Variable(spec.Env, urlVariable)
	url = cmp.Or(url, usualURL)
	return map[string]string{
		"approval_policy":             quote("never"),
		"web_search":                  quote("disabled"),
		"analytics.enabled":           "false",
		"check_for_update_on_startup": "false",
		"project_doc_max_bytes":       "0",
		"skills.include_instructions": "false",
		"skills.bundled.enabled":      "false",
		// The key of the session must reach the commands, or they could not be found again; that of the API must not.
		"shell_environment_policy": `{inherit="all",ignore_default_excludes=true,exclude=["OPENAI_*","CODEX_API_KEY"]}`,
		"model_provider":           quote(providerName),
		// Failures are judged here, not waited for there; the time without output is below our own idle limit. Under the name
		// "OpenAI" Codex would rely on things that only that API does, such as summing up a conversation on the server.
		"model_providers." + providerName: fmt.Sprintf(
			`{name="claudeops",base_url=%s,env_key=%s,wire_api="responses",`+
				`request_max_retries=2,stream_max_retries=1,stream_idle_timeout_ms=300000,`+
				`env_http_headers={"OpenAI-Organization"="OPENAI_ORGANIZATION","OpenAI-Project"="OPENAI_PROJECT"}}`,
			quote(url), quote(keyVariable)),
	}
}

// toolSettings offer the supervisor's tools. The key of the session reaches them by its name, because arguments can be read by every
// process. Without a namespace of its own Codex shows them only to a model that searches for them. Codex has no person to ask for an
// approval: it would refuse each tool that changes something, while the supervisor decides about each call itself.
func toolSettings(spec ops.SessionSpec) map[string]string {
	if spec.Gate == nil || len(spec.Gate.Tools.MCP) == 0 {
		return nil
	}
	argv := spec.Gate.Tools.MCP
	words := make([]string, len(argv)-1)
	for i, word := range argv[1:] {
		words[i] = quote(word)
	}
	return map[string]string{
		"mcp_servers." + ops.ToolServerName: fmt.Sprintf(
			`{command=%s,args=[%s],env_vars=["CLAUDEOPS_SESSION_KEY"],startup_timeout_sec=20,tool_timeout_sec=%d,`+
				`default_tools_approval_mode="approve"}`,
			quote(argv[0]), strings.Join(words, ","), int(toolTimeout.Seconds())),
		"features.code_mode": fmt.Sprintf(`{direct_only_tool_namespaces=[%s]}`, quote("mcp__"+ops.ToolServerName)),
	}
}

// sandboxSettings are what Codex itself puts around each command.
func sandboxSettings(readOnly bool) map[string]string {
	if readOnly {
		return map[string]string{"sandbox_mode": quote("read-only")}
	}
	return map[string]string{"sandbox_mode": quote("danger-full-access")}
}

func options(settings map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		out = append(out, "-c", key+"="+settings[key])
	}
	return out
}

// quote writes a TOML string: one of JSON, but for the one character that TOML wants escaped and JSON does not.
func quote(text string) string {
	data, err := json.Marshal(strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return `""` // a string can always be encoded
	}
	return strings.ReplaceAll(string(data), "\x7f", `\u007f`)
}

// environment builds the environment of the program.
func (c *Codex) environment(spec ops.SessionSpec, f agent.Folders, home string) []string {
	passes := func(name string) bool {
		switch name {
		case keyVariable, "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE":
			return true
		}
		return slices.Contains(c.o.ExtraEnv, name)
	}
	env := agent.Environment(spec, f, agent.Variables{Passes: passes, Set: map[string]string{"CODEX_HOME": home}})
	return gatedEnvironment(env, gateOf(spec))
}

// gateOf is the folder of the session's gate; empty where its commands are not judged.
func gateOf(spec ops.SessionSpec) string {
	if spec.Gate == nil || spec.Gate.ShellPrefix == "" {
		return ""
	}
	return filepath.Dir(spec.Gate.ShellPrefix)
}

// shells are where the gate is found as a shell, in its folder.
func shells(gate string) string { return filepath.Join(gate, "shells") }

// gatedEnvironment leaves Codex nothing but the gate to find in its PATH: it looks there for the shell that a model names, and starts
// other programs for itself that nobody judges. The gate gives the commands their PATH back.
func gatedEnvironment(env []string, gate string) []string {
	if gate == "" {
		return env
	}
	path := agent.Variable(env, "PATH")
	env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") })
	return append(env, "PATH="+shells(gate), "CLAUDEOPS_SHELL_PATH="+path, "CLAUDEOPS_SHELL_GATE="+gate)
}

// homeName is CODEX_HOME in the home of the agents, and keptInHome holds the records of the conversations there. Both are made anew for
// each session: Codex reads what an agent may leave there, such as instructions, even when it is told not to.
const (
	homeName   = ".codex"
	keptInHome = "sessions"
)
