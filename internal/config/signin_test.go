package config

import (
	"slices"
	"strings"
	"testing"

	"claudeops/internal/access"
)

const signIn = `
api_token: 0123456789abcdef0123456789abcdef
web: {public_url: "https://ops.example.org"}
oidc:
  issuer: https://id.example.org
  client_id: claudeops
  admins: [group:sre]
  responders: [alice@example.org, group:on-call]
`

func TestRolesOfPeopleAreRead(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: signIn, env: []string{"CLAUDEOPS_OIDC_CLIENT_SECRET_FILE={dir}/secret"}, files: map[string]string{"secret": "very-secret\n"}})
	got := c.OIDC.Granted()
	if len(got) != 2 || got[0].Role != access.RoleAdmin || !slices.Equal(got[0].Groups, []string{"sre"}) || len(got[0].Users) != 0 ||
		got[1].Role != access.RoleResponder || !slices.Equal(got[1].Users, []string{"alice@example.org"}) || !slices.Equal(got[1].Groups, []string{"on-call"}) {
		t.Errorf("granted %+v", got)
	}
	if c.OIDC.ClientSecret != "very-secret" || !slices.Contains(c.Secrets, "very-secret") || shown(c, "oidc.client_secret").Value == "very-secret" {
		t.Errorf("secret %q, hidden as %q", c.OIDC.ClientSecret, shown(c, "oidc.client_secret").Value)
	}
	if !slices.Equal(c.OIDC.Scopes, []string{"openid", "profile", "email"}) || c.OIDC.GroupsClaim != "groups" {
		t.Errorf("%+v", c.OIDC)
	}
}

func TestASignInThatCannotWorkIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ from, to, says string }{
		"no TLS":     {"https://id.example.org", "http://id.example.org", "without TLS"},
		"no client":  {"  client_id: claudeops\n", "", "no oidc.client_id"},
		"no address": {`web: {public_url: "https://ops.example.org"}`, "", "web.public_url"},
		"nobody":     {"  admins: [group:sre]\n  responders: [alice@example.org, group:on-call]\n", "", "nobody could sign in"},
		"no issuer":  {"  issuer: https://id.example.org\n", "", "no oidc.issuer"},
		"no URL":     {"https://id.example.org", "id.example.org", ""},
	} {
		_, _, err := load(t, setup{yaml: strings.Replace(signIn, c.from, c.to, 1)})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := load(t, setup{yaml: strings.Replace(signIn, "https://id.example.org", "http://127.0.0.1:5556/dex", 1)}); err != nil {
		t.Errorf("a provider on loopback: %v", err)
	}
}
