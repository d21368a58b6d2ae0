package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryExamplePassesConfigCheckAndIsShown(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find examples: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, words := range []string{"config check", "config show --origin", "handlers list", "handlers graph", "handlers graph --format mermaid", "handlers graph --format dot"} {
				var out, errs bytes.Buffer
				args := append(strings.Fields(words), "--config", file)
				code := Main(args, Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: []string{"HOME=" + t.TempDir()}, Version: "test"})
				if code != exitOK || out.Len() == 0 || errs.Len() != 0 {
					t.Errorf("%s: exit %d\n%s%s", words, code, out.String(), errs.String())
				}
			}
		})
	}
}
