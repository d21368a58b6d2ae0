package config

import (
	"slices"
	"strings"
	"testing"
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
