package agent_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"claudeops/internal/agent"
)

func TestAKeyIsTestedWithAFreeRequest(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch key {
		case "good":
			if r.Header.Get("X-Team") != "ops" && r.URL.Path == "/v1/models" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "narrow":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("You have insufficient permissions for this operation"))
		case "forbidden":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer api.Close()
	const anthropic, openai = "ANTHROPIC_API_KEY", "OPENAI_API_KEY"
	for name, tc := range map[string]struct {
		variable, key string
		state         agent.KeyState
		asks          string
	}{
		"accepted":                {anthropic, "good", agent.KeyAccepted, "GET /v1/models"},
		"accepted by another API": {openai, "good", agent.KeyAccepted, "GET /models"},
		"refused":                 {anthropic, "wrong-secret", agent.KeyRefused, "GET /v1/models"},
		"refused as a token":      {"ANTHROPIC_AUTH_TOKEN", "wrong-secret", agent.KeyRefused, "GET /v1/models"},
		"may not list models":     {openai, "narrow", agent.KeyUntested, "GET /models"},
		"forbidden":               {anthropic, "forbidden", agent.KeyUntested, "GET /v1/models"},
		"sent elsewhere":          {anthropic, "moved", agent.KeyUntested, "GET /v1/models"},
		"a subscription":          {"CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-1", agent.KeyUntested, ""},
		"no free request":         {"MY_API_KEY", "good", agent.KeyUntested, ""},
		"the example":             {anthropic, "sk-ant-your-key", agent.KeyPlaceholder, ""},
		"the dots":                {anthropic, "sk-ant-...", agent.KeyPlaceholder, ""},
		"none":                    {anthropic, "", agent.KeyMissing, ""},
	} {
		asked = nil
		env := []string{
			tc.variable + "=" + tc.key, "ANTHROPIC_BASE_URL=" + api.URL + "/", "OPENAI_BASE_URL=" + api.URL, "ANTHROPIC_CUSTOM_HEADERS=X-Team: ops",
		}
		got := agent.CheckKey(t.Context(), env, "OTHER", tc.variable)
		if got.State != tc.state || strings.Join(asked, ",") != tc.asks {
			t.Errorf("%s: %+v, asked %v", name, got, asked)
		}
		if tc.key != "" && strings.Contains(got.Detail, tc.key) || got.State == agent.KeyUntested && got.Detail == "" {
			t.Errorf("%s: it says %q", name, got.Detail)
		}
	}
	api.Close()
	if got := agent.CheckKey(t.Context(), []string{anthropic + "=good", "ANTHROPIC_BASE_URL=" + api.URL}, anthropic); got.State != agent.KeyUntested ||
		!strings.Contains(got.Detail, "does not answer") {
		t.Errorf("nobody listens: %+v", got)
	}
}
