package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/test/npmregistry"
	"claudeops/test/realcli"
)

func TestTheKnownVersionIsTheTestedOne(t *testing.T) {
	t.Parallel()
	p, err := claude.KnownPackage()
	if claude.KnownVersion != realcli.Version || err != nil || !strings.HasSuffix(p.Name, "@"+realcli.Version) || !strings.HasPrefix(p.Sum, "sha512-") {
		t.Errorf("installed is %s (%+v, %v), tested %s", claude.KnownVersion, p, err, realcli.Version)
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	const name, good = "@anthropic-ai/claude-code-test@" + claude.KnownVersion, "#!/bin/sh\necho '" + claude.KnownVersion + " (Claude Code)'\n"
	archive := func(file, text string) []byte { return npmregistry.Archive(t, file, text) }
	for what, tt := range map[string]struct {
		pack npmregistry.Package
		sum  string
		path string // a PATH instead of the usual one
		says []string
	}{
		"it is what it should be":     {pack: npmregistry.Package{Archive: archive("package/claude", good)}},
		"another checksum":            {pack: npmregistry.Package{Archive: archive("package/claude", good)}, sum: npmregistry.Sum(nil), says: []string{"its checksum is sha512-", "and not " + npmregistry.Sum(nil), "nothing was installed"}},
		"npm gets another checksum":   {pack: npmregistry.Package{Archive: archive("package/claude", good), Told: npmregistry.Sum(nil)}, says: []string{"with npm: exit status", "EINTEGRITY"}},
		"another version":             {pack: npmregistry.Package{Archive: archive("package/claude", "#!/bin/sh\necho 2.1.1\n")}, says: []string{`says it is version "2.1.1"`}},
		"a program that does not run": {pack: npmregistry.Package{Archive: archive("package/claude", "#!/bin/sh\necho no libc >&2\nexit 1\n")}, says: []string{"nothing was installed", "no libc"}},
		"no program":                  {pack: npmregistry.Package{Archive: archive("package/other", good)}, says: []string{"it holds no program"}},
		"a package that is not there": {pack: npmregistry.Package{Name: "another@1.0.0", Archive: archive("package/claude", good)}, says: []string{"with npm: exit status", "404"}},
		"no npm":                      {pack: npmregistry.Package{Archive: archive("package/claude", good)}, path: "/nonexistent", says: []string{"npm", "was not found in PATH", "copy the program"}},
		"not an archive":              {pack: npmregistry.Package{Archive: []byte("hello")}, says: []string{"unpack"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if tt.pack.Name == "" {
				tt.pack.Name = name
			}
			if tt.sum == "" {
				tt.sum = npmregistry.Sum(tt.pack.Archive)
			}
			env := npmregistry.Env(t, tt.pack)
			if tt.path != "" {
				env = append(env, "PATH="+tt.path)
			}
			folder := filepath.Join(t.TempDir(), "state", "programs")
			p := agent.Package{Name: name, Sum: tt.sum, Version: claude.KnownVersion, Program: "claude", Folder: "package", Path: "claude"}
			for range 2 { // an update replaces what is there
				path, err := agent.Install(t.Context(), p, folder, env, func(program string) agent.Adapter { return claude.New(claude.Options{Bin: program}) })
				if (err == nil) != (tt.says == nil) {
					t.Fatalf("installed %q: %v", path, err)
				}
				for _, words := range tt.says {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("%q is missing: %v", words, err)
					}
				}
			}
			left, _ := os.ReadDir(folder)
			if tt.says != nil {
				if len(left) > 0 {
					t.Errorf("left %v", left)
				}
				return
			}
			info, err := os.Stat(filepath.Join(folder, "claude"))
			if err != nil || info.Mode().Perm() != 0o755 || len(left) != 1 {
				t.Errorf("installed %v (%v), left %v", info, err, left)
			}
		})
	}
}
