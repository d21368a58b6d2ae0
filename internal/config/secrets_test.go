package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/access"
	"claudeops/internal/ops"
)

func TestSecretsHoldEveryConfiguredOne(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml:  "api_token_file: token\nsecrets: [literal-secret, DB_PASSWORD, NOT_SET]\nagent: {env: [GITHUB_TOKEN]}\n",
		files: map[string]string{"token": "api-token-value-of-the-file\n"},
		env: []string{
			"CLAUDEOPS_APPRISE_URLS=mailto://operator:p%40ss@mail.example.org\n tgram://123456789:abcdefghijklmnopqrst/42",
			"ANTHROPIC_API_KEY=key", "CLAUDE_CODE_OAUTH_TOKEN=oauth", "ANTHROPIC_AUTH_TOKEN=auth", "DB_PASSWORD=from-variable",
			"GITHUB_TOKEN=gh-token-value", "HTTPS_PROXY=http://proxyuser:proxypass@proxy:3128", "ANTHROPIC_MODEL=not-secret",
		},
	})
	for _, want := range []string{
		"api-token-value-of-the-file", "mailto://operator:p%40ss@mail.example.org", "operator", "p%40ss", "p@ss", "tgram://123456789:abcdefghijklmnopqrst/42",
		"abcdefghijklmnopqrst", "key", "oauth", "auth", "from-variable", "literal-secret", "NOT_SET", "gh-token-value", "proxypass",
	} {
		if !slices.Contains(c.Secrets, want) {
			t.Errorf("%q is not a secret", want)
		}
	}
	for _, s := range c.Secrets {
		if s == "" || s == "not-secret" || s == "DB_PASSWORD" || s == "42" || s == "mail.example.org" {
			t.Errorf("%q is a secret", s)
		}
	}
	if !slices.IsSortedFunc(c.Secrets, func(a, b string) int { return len(b) - len(a) }) {
		t.Errorf("secrets are not sorted by length: %q", c.Secrets)
	}
	for _, s := range c.Show() {
		for _, secret := range []string{"api-token-value-of-the-file", "p%40ss", "abcdefghijklmnopqrst", "literal-secret", "oauth-"} {
			if strings.Contains(s.Value, secret) {
				t.Errorf("%s shows %q", s.Key, secret)
			}
		}
	}
	if got := shown(c, "api_token"); got.Value != hidden || got.Origin != "claudeops.yaml:1" {
		t.Errorf("api_token is shown as %+v", got)
	}
	if len(c.AppriseURLs) != 2 {
		t.Errorf("apprise urls are %q", c.AppriseURLs)
	}
}

func TestPasswordInAShownURLIsHidden(t *testing.T) {
	c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_APPRISE_API=http://joe:hunter2@apprise:8000"}})
	if got := shown(c, "notify.apprise_api").Value; strings.Contains(got, "hunter2") || !strings.Contains(got, "apprise:8000") {
		t.Errorf("shown as %q", got)
	}
	if !slices.Contains(c.Secrets, "hunter2") || c.AppriseAPI != "http://joe:hunter2@apprise:8000" {
		t.Errorf("secrets are %q", c.Secrets)
	}
}

func TestSecretFileOfAStrongerSourceWins(t *testing.T) {
	c, _ := mustLoad(t, setup{
		yaml: "api_token: from-yaml\n", env: []string{"CLAUDEOPS_API_TOKEN_FILE={dir}/t"}, files: map[string]string{"t": "  from-file-of-twenty-letters\n\n"},
	})
	if c.APIToken != "from-file-of-twenty-letters" || shown(c, "api_token").Origin != "environment CLAUDEOPS_API_TOKEN_FILE" {
		t.Errorf("token is %q from %q", c.APIToken, shown(c, "api_token").Origin)
	}
}

// With the user of docs/containers.md, the name of the program would be removed from every text.
func TestTheUserOfADatabaseIsNotASecret(t *testing.T) {
	c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_DATABASE_URL=postgres://claudeops:hunter2@db/claudeops"}})
	if !slices.Contains(c.Secrets, "hunter2") || slices.Contains(c.Secrets, "claudeops") {
		t.Errorf("secrets are %q", c.Secrets)
	}
}

func TestWhatTheGuardProtectsIsTold(t *testing.T) {
	c, _ := mustLoad(t, setup{})
	want := ops.Protected{
		Files:   []string{"inventory.yml", "inventory.yaml", "inventory.ini", "hosts.yml", "hosts.yaml"},
		Volumes: []string{"/var/lib/docker/volumes"},
	}
	if got := c.Environments()[0].Protected; !reflect.DeepEqual(got, want) {
		t.Errorf("protected by default: %+v", got)
	}
	c, _ = mustLoad(t, setup{yaml: "guard: {enabled: false, hosts: [nas]}\n"})
	env := c.Environments()[0]
	if got := env.Protected; !slices.Equal(got.Hosts, []string{"nas"}) {
		t.Errorf("protected: %+v", got)
	}
	for tier, lists := range env.Tools {
		for _, rule := range []string{"Edit(//**/hosts.yaml)", "Edit(//var/lib/docker/volumes/**)", "Bash(rm -rf /var/lib/docker/volumes:*)"} {
			if !slices.Contains(lists.Disallowed, rule) {
				t.Errorf("%s may do what %s forbids", tier, rule)
			}
		}
	}
}

func TestHandlersAreDescribed(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "handlers: [{id: a, tier: 1, good_for: every morning}]\n"})
	if h := c.Environments()[0].Policy.Handlers[0]; h.GoodFor != "every morning" {
		t.Errorf("handler is %+v", h)
	}
}

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
