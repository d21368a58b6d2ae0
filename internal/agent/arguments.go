package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

// arguments builds what stands behind the name of the program. Texts that do not fit into one
// argument travel by file: the returned one is the standard input.
func (c *Claude) arguments(spec ops.SessionSpec, f folders, r *readied) (args []string, stdin *os.File, err error) {
	tag := fmt.Sprintf("session-%d", spec.Session.ID)
	if _, ok := cgroupName(spec.Session.Key); ok {
		tag = spec.Session.Key
	}
	settings := filepath.Join(f.agent, "settings-"+tag+".json")
	content := "{}\n"
	if spec.Gate != nil {
		content = string(spec.Gate.Settings)
	}
	// The CLI silently ignores a settings file that is not JSON, and with it the hook, so it is checked and always written anew.
	if !json.Valid([]byte(content)) {
		return nil, nil, &startError{class: ops.FailureStart, text: "the settings of the agent are not JSON"}
	}
	if err := r.write(settings, content); err != nil {
		return nil, nil, err
	}
	r.settings = sealed{path: settings, sum: sha256.Sum256([]byte(content))}
	args = []string{"-p"}
	prompt := strings.ReplaceAll(spec.Prompt, "\x00", "")
	byFile := len(prompt) > maxArgument || strings.HasPrefix(prompt, "-")
	if !byFile {
		// Right behind -p: lists of tools would swallow it.
		args = append(args, prompt)
	}
	args = append(args, "--output-format", "stream-json", "--verbose")
	args = appendOption(args, "--model", spec.Session.Model)
	if spec.Resume != "" {
		args = append(args, "--resume", spec.Resume, "--fork-session")
	}
	args = appendOption(args, "--session-id", spec.Session.PlannedID)
	if spec.Resume != "" && r.snapshots {
		// Otherwise the CLI goes on with the system prompt and the tools of the tier below.
		args = append(args, "--system-prompt-snapshot", "off")
	}
	system := strings.ReplaceAll(spec.SystemPrompt, "\x00", "")
	if len(system) > maxArgument {
		name := filepath.Join(f.agent, "system-"+tag+".md")
		if err := r.write(name, system); err != nil {
			return nil, nil, err
		}
		args = append(args, "--append-system-prompt-file", name)
	} else {
		args = appendOption(args, "--append-system-prompt", system)
	}
	args = appendOption(args, "--tools", strings.Join(spec.Tools.Tools, ","))
	args = appendOption(args, "--allowedTools", strings.Join(spec.Tools.Allowed, ","))
	args = appendOption(args, "--disallowedTools", strings.Join(spec.Tools.Disallowed, ","))
	args = append(args, "--permission-mode", "dontAsk", "--settings", settings, "--setting-sources", "", "--strict-mcp-config")
	args = appendOption(args, "--json-schema", spec.OutcomeJSON)
	if spec.BudgetUSD > 0 && r.budgets {
		// It counts what this run spends, also where it continues a conversation, so nothing is added for what that one has
		// cost. The CLI looks after every call of the model: a run spends up to one call more than the limit, and the answer
		// of that call is lost, the tools it asks for are not run.
		args = append(args, "--max-budget-usd", strconv.FormatFloat(spec.BudgetUSD, 'f', -1, 64))
	}
	if byFile {
		stdin, err = promptFile(f.agent, prompt)
	}
	return args, stdin, err
}

func appendOption(args []string, name, value string) []string {
	if value == "" {
		return args
	}
	return append(args, name, value)
}

// write writes a file that only lives as long as the session.
func (r *readied) write(name, text string) error {
	r.files = append(r.files, name)
	// A file of another mode could have been left there.
	_ = os.Remove(name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return &startError{class: ops.FailureStart, text: fmt.Sprintf("a file of the agent cannot be written: %v", err)}
	}
	return nil
}

// sealed is a file that must not change between its making and the start.
type sealed struct {
	path string
	sum  [sha256.Size]byte
}

// intact reads the file once more: without the hook in it the agent's tools would run unjudged.
func (s sealed) intact() error {
	raw, err := os.ReadFile(s.path)
	if err != nil {
		return &startError{class: ops.FailureStart, text: fmt.Sprintf("the settings of the agent cannot be read again: %v", err)}
	}
	if sha256.Sum256(raw) != s.sum {
		return &startError{class: ops.FailureStart, text: "the settings of the agent were changed before it started: somebody else writes to " + s.path}
	}
	return nil
}

// promptFile returns a file without a name that holds the prompt.
func promptFile(dir, prompt string) (*os.File, error) {
	file, err := os.CreateTemp(dir, "prompt-*")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err == nil {
		_, err = io.WriteString(file, prompt)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, &startError{class: ops.FailureStart, text: fmt.Sprintf("the prompt cannot be written: %v", err)}
	}
	return file, nil
}
