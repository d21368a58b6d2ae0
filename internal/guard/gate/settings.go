package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// hookTimeout is how many seconds the CLI waits for the hook.
const hookTimeout = 10

// settings is the part of the CLI's settings that sets the hook.
type settings struct {
	Hooks struct {
		PreToolUse []hookMatcher `json:"PreToolUse"`
	} `json:"hooks"`
}

type hookMatcher struct {
	Matcher string        `json:"matcher"`
	Hooks   []hookCommand `json:"hooks"`
}

type hookCommand struct {
	Type      string `json:"type"`
	Command   string `json:"command"`
	Timeout   int    `json:"timeout"`
	OnFailure string `json:"onFailure"`
}

// hookSettings writes the settings and reads them again: the CLI ignores settings it cannot read, and then runs
// every tool.
func hookSettings(command string) ([]byte, error) {
	var want, got settings
	want.Hooks.PreToolUse = []hookMatcher{{
		Matcher: "*",
		Hooks:   []hookCommand{{Type: "command", Command: command, Timeout: hookTimeout, OnFailure: "block"}},
	}}
	text, err := json.Marshal(want)
	if err != nil {
		return nil, fmt.Errorf("write the hook's settings: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil {
		return nil, fmt.Errorf("read the hook's settings again: %w", err)
	}
	if !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("the hook's settings do not survive being written: is %q valid UTF-8?", command)
	}
	return append(text, '\n'), nil
}

// hookLine is the command line of the hook.
func hookLine(self, socket string) string {
	return quote(self) + " guard hook " + quote(socket)
}

// quote makes one word of a text, as the CLI does it.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'"
}
