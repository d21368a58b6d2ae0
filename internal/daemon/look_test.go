package daemon

import (
	"testing"

	"claudeops/internal/guard"
)

// What an agent asks the supervisor to look at is judged as the command that would do the same.
func TestALookIsJudgedAsItsCommand(t *testing.T) {
	judge, err := guard.New(nil)
	must(t, err)
	facts := guard.Facts{OwnAPI: []string{"127.0.0.1:8080"}}
	for _, words := range [][]string{
		{"curl", "http://localhost:9090/x?y='1'"}, {"psql", "-c", "SELECT 'it''s', 1"}, {"redis-cli", "INFO"}, {"ss", "-tlnp"}, {"ip", "-br", "addr", "show"},
	} {
		if err := allowedLook(judge, facts, words); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, words := range [][]string{
		{"curl", "http://127.0.0.1:8080/api"},
		{"curl", "http://169.254.169.254/"},
		{"psql", "-c", "SELECT * FROM pg_shadow"},
		{"psql", "-c", "DELETE FROM t"},
		{"redis-cli", "CONFIG", "GET", "requirepass"},
		{"ss", "-K"},
		{"ip", "link", "set", "eth0", "down"},
	} {
		if err := allowedLook(judge, facts, words); err == nil {
			t.Errorf("%q is allowed", words)
		}
	}
}
