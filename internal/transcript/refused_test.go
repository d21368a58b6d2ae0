package transcript_test

import (
	"encoding/json"
	"slices"
	"testing"

	"claudeops/internal/transcript"
)

func TestWhatTheKernelRefusedIsReadFromTheAnswersOfTools(t *testing.T) {
	for text, want := range map[string]string{
		"cat: /etc/shadow: Permission denied":                                    "/etc/shadow",
		"touch: cannot touch '/etc/a b': Read-only file system":                  "/etc/a b",
		"ls: cannot open directory '/root': Permission denied":                   "/root",
		"find: ‘/root/x’: Permission denied":                                     "/root/x",
		"bash: line 1: /etc/x: Permission denied":                                "/etc/x",
		"/bin/sh: 1: cannot create /etc/x: Permission denied":                    "/etc/x",
		"bash: /dev/tcp/192.0.2.1/80: Permission denied":                         "/dev/tcp/192.0.2.1/80",
		"chmod: changing permissions of 'run.sh': Operation not permitted":       "run.sh",
		"fatal: could not create work tree dir '/srv/x': Permission denied":      "/srv/x",
		"nc: connect to 192.0.2.1 port 22 (tcp) failed: Permission denied":       "192.0.2.1 port 22",
		"ssh: connect to host db.example.org port 22: Permission denied":         "db.example.org port 22",
		"PermissionError: [Errno 13] Permission denied: '/etc/x'":                "/etc/x",
		"EACCES: permission denied, open '/etc/x'":                               "/etc/x",
		"Error: EROFS: read-only file system, open '/usr/x'":                     "/usr/x",
		"before\ncat: /etc/shadow: Permission denied\nafter":                     "/etc/shadow",
		"2026/03/14 [crit] open() \"/var/www/x\" failed (13: Permission denied)": "",
		"Nov 17 11:00:00 web app[1]: cat: /etc/x: Permission denied":             "",
		"git@github.com: Permission denied (publickey).":                         "",
		"the file /etc/x answers Permission denied":                              "",
		"cat: /etc/x: No such file or directory":                                 "",
	} {
		content := []map[string]any{{"type": "tool_result", "tool_use_id": "t1", "content": text}}
		line, err := json.Marshal(map[string]any{"type": "user", "message": map[string]any{"content": content}})
		if err != nil {
			t.Fatal(err)
		}
		var wanted []string
		if want != "" {
			wanted = []string{want}
		}
		if got := transcript.Refused(string(line)); !slices.Equal(got, wanted) {
			t.Errorf("%s: got %q, want %q", text, got, wanted)
		}
	}
	for _, line := range []string{
		`{"type":"assistant","message":{"content":[{"type":"text","text":"cat: /etc/shadow: Permission denied"}]}}`,
		"cat: /etc/shadow: Permission denied",
	} {
		if got := transcript.Refused(line); got != nil {
			t.Errorf("what the agent says itself: got %q", got)
		}
	}
}
