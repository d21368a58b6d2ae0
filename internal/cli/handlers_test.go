package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is the environment of a machine that has these programs, and keys for all of them.
func machine(t *testing.T, programs ...string) []string {
	t.Helper()
	bin := t.TempDir()
	for _, p := range programs {
		must(t, os.WriteFile(filepath.Join(bin, p), []byte("#!/bin/sh\n"), 0o755))
	}
	return []string{
		"HOME=" + t.TempDir(), "PATH=" + bin, "ANTHROPIC_API_KEY=sk-ant-0123456789", "OPENAI_API_KEY=sk-0123456789abcdef",
		// Nobody listens there: no test asks the API of a maker.
		"ANTHROPIC_BASE_URL=http://127.0.0.1:9", "OPENAI_BASE_URL=http://127.0.0.1:9",
	}
}

func TestEveryExamplePassesConfigCheckAndIsShown(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, words := range []string{"config check", "config show --origin", "handlers list"} {
				var out, errs bytes.Buffer
				args := append(strings.Fields(words), "--config", file)
				code := Main(args, Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: machine(t, "claude", "codex"), Version: "test"})
				if code != exitOK || out.Len() == 0 || errs.Len() != 0 {
					t.Errorf("%s: exit %d\n%s%s", words, code, out.String(), errs.String())
				}
			}
		})
	}
}
