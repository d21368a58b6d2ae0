package keyproxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"claudeops/internal/agent/keyproxy"
)

// A play asks for one command and one file in the form of either API, and ends once both were answered.
func TestAPlayAsksForACommandAndAFile(t *testing.T) {
	t.Parallel()
	for path, wants := range map[string][2][]string{
		"/v1/messages":  {{`"name":"Bash"`, `touch /x`, `"name":"Write"`, `/y`, `"stop_reason":"tool_use"`, "event: message_stop"}, {`"text":"done"`, `"stop_reason":"end_turn"`}},
		"/v1/responses": {{`"name":"exec_command"`, `touch /x`, `"name":"apply_patch"`, `Add File: /y`, "event: response.completed"}, {`"text":"done"`}},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			play := &keyproxy.Play{Command: "touch /x", File: "/y"}
			p, err := keyproxy.Listen(keyproxy.Options{Upstream: "https://127.0.0.1:1/v1", Keys: map[string]string{"token": "key"}, Play: play})
			must(t, err)
			defer p.Close()
			for i, body := range []string{`{"tools":[{"name":"apply_patch"}]}`, keyproxy.PlayedCommand + keyproxy.PlayedFile} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.Address()+path, strings.NewReader(body))
				must(t, err)
				req.Header.Set("Authorization", "Bearer token")
				res, err := http.DefaultClient.Do(req)
				must(t, err)
				said, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				for _, want := range wants[i] {
					if !strings.Contains(string(said), want) {
						t.Errorf("call %d: %q is missing in\n%s", i, want, said)
					}
				}
				if play.Ended() != (i == 1) {
					t.Errorf("call %d: ended %v", i, play.Ended())
				}
			}
		})
	}
}
