package config

import (
	"slices"
	"strings"
	"testing"
)

func TestATokenIsLongAndIsNotShown(t *testing.T) {
	for env, want := range map[string]string{
		"CLAUDEOPS_API_TOKEN=nineteen-characters":      "at least 20",
		"CLAUDEOPS_PUBLIC_URL=https://ops.example.org": "set CLAUDEOPS_API_TOKEN",
	} {
		if _, _, err := load(t, setup{env: []string{env}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", env, err)
		}
	}
	const token = "full-0123456789abcdef0123"
	c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_API_TOKEN_FILE=token"}, files: map[string]string{"token": token + "\n"}})
	if c.APIToken != token || !slices.Contains(c.Secrets, token) {
		t.Errorf("read %q from its file, secrets %q", c.APIToken, c.Secrets)
	}
	for _, s := range c.Show() {
		if strings.Contains(s.Value, token) {
			t.Errorf("%s shows the token", s.Key)
		}
	}
}

func TestARemoteIsReadFromFlagsThenTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "from-file\n")
	for _, tc := range []struct {
		given Remote
		env   []string
		want  string
	}{
		{Remote{}, nil, " "},
		{Remote{}, []string{"CLAUDEOPS_API_TOKEN=x"}, " "},
		{Remote{}, []string{"CLAUDEOPS_SERVER=http://a:1", "CLAUDEOPS_API_TOKEN=x"}, "http://a:1 x"},
		{Remote{Server: "https://b"}, []string{"CLAUDEOPS_SERVER=http://a:1"}, "https://b "},
		{Remote{Server: "127.0.0.1:8080"}, nil, "http://127.0.0.1:8080 "},
		{Remote{Server: "https://b", TokenFile: dir + "/token"}, []string{"CLAUDEOPS_API_TOKEN=x"}, "https://b from-file"},
		{Remote{Server: "https://b"}, []string{"CLAUDEOPS_API_TOKEN_FILE=" + dir + "/token"}, "https://b from-file"},
	} {
		got, err := ReadRemote(tc.given, tc.env)
		if err != nil || got.Server+" "+got.Token != tc.want {
			t.Errorf("%+v, %v: %+v, %v", tc.given, tc.env, got, err)
		}
	}
	for _, bad := range []Remote{{Server: "127.0.0.1"}, {Server: "ftp://x"}, {Server: "http://x", TokenFile: dir + "/none"}} {
		if _, err := ReadRemote(bad, nil); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	// The variable is ours, so it is no slip of the pen.
	if c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_SERVER=http://a:1"}}); len(c.Notices) != 0 {
		t.Errorf("notices %q", c.Notices)
	}
}

func TestTheSandboxMayBeWrittenAsOneWord(t *testing.T) {
	for text, want := range map[string]SandboxMode{
		"sandbox: required\n": SandboxRequired, "sandbox: off\n": SandboxOff, "sandbox:\n": SandboxAuto,
		"sandbox: {mode: required}\n": SandboxRequired,
	} {
		if c, _ := mustLoad(t, setup{yaml: text}); c.Guard.Sandbox.Mode != want {
			t.Errorf("%q gives %s", text, c.Guard.Sandbox.Mode)
		}
	}
	if _, _, err := load(t, setup{yaml: "sandbox: perhaps\n"}); err == nil || !strings.Contains(err.Error(), "sandbox.mode") {
		t.Errorf("%v", err)
	}
}

func TestTheUserOfTheAgentsIsFound(t *testing.T) {
	for text, want := range map[string]int{"": 777, "sandbox: {uid: 0}\n": 0, "sandbox: {uid: 5}\n": 5, "sandbox: off\n": 0} {
		s := setup{yaml: text, agentUser: 777}
		if c, _ := mustLoad(t, s); c.Guard.Sandbox.UID != want {
			t.Errorf("%q gives user %d", text, c.Guard.Sandbox.UID)
		}
	}
	if _, _, err := load(t, setup{yaml: "sandbox: {uid: nobody}\n"}); err == nil {
		t.Error("a name is no user id")
	}
}
