package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// release is what a bill of materials is about.
type release struct {
	version, date string
	programs      []string // OS/ARCH=FILE
}

// The parts of CycloneDX 1.6 that are used.
type (
	bom struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     bomMetadata  `json:"metadata"`
		Components   []bomPart    `json:"components"`
		Dependencies []bomDepends `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string  `json:"timestamp"`
		Component bomPart `json:"component"`
	}
	bomPart struct {
		Type     string       `json:"type"`
		Ref      string       `json:"bom-ref"`
		Name     string       `json:"name"`
		Version  string       `json:"version,omitempty"`
		Hashes   []bomHash    `json:"hashes,omitempty"`
		Licenses []bomLicense `json:"licenses,omitempty"`
		PURL     string       `json:"purl,omitempty"`
		Parts    []bomPart    `json:"components,omitempty"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomLicense struct {
		License struct {
			ID   string `json:"id,omitempty"`
			Name string `json:"name,omitempty"`
		} `json:"license"`
	}
	bomDepends struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

// bill lists what the programs say they were made from, with the licences of the sources. Something without a licence is an error.
func (r release) bill(root string, all []component) ([]byte, error) {
	out := bom{Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1}
	out.Metadata.Timestamp = r.date
	top := bomPart{Type: "application", Ref: "claudeops", Name: "claudeops", Version: r.version, PURL: "pkg:generic/claudeops@" + escape(r.version)}
	top.Licenses = licences([]string{"Apache-2.0"})
	linked := map[string]*debug.Module{}
	goVersion := ""
	for _, p := range r.programs {
		platform, path, _ := strings.Cut(p, "=")
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read modules of %s: %w", platform, err)
		}
		raw, err := os.ReadFile(path) //nolint:gosec // the programs of the release
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		sum := sha256.Sum256(raw)
		top.Parts = append(top.Parts, bomPart{Type: "file", Ref: "file:" + platform, Name: platform + "/claudeops", Hashes: []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}})
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			linked[m.Path] = m
		}
	}
	out.Metadata.Component = top
	used, err := r.parts(root, all, linked, goVersion)
	if err != nil {
		return nil, err
	}
	out.Components = used
	uses := bomDepends{Ref: top.Ref}
	for _, p := range used {
		uses.On = append(uses.On, p.Ref)
		out.Dependencies = append(out.Dependencies, bomDepends{Ref: p.Ref})
	}
	out.Dependencies = append(out.Dependencies, uses)
	return out.text()
}

// parts lists the standard library, the linked modules and the bundled files.
func (release) parts(root string, all []component, linked map[string]*debug.Module, goVersion string) (out []bomPart, err error) {
	bundled := assets(root)
	for i, c := range all {
		part := bomPart{Type: "library", Name: c.name, Version: c.version}
		at := slices.IndexFunc(bundled, func(a asset) bool { return a.name == c.name })
		switch m := linked[c.name]; {
		case i == 0:
			part.Name, part.Version, part.PURL = "std", goVersion, "pkg:golang/std@"+goVersion
		case at >= 0:
			part.PURL = "pkg:npm/" + c.name + "@" + c.version
			if part.Parts, err = bundled[at].parts(); err != nil {
				return nil, err
			}
		case m == nil:
			continue // none of these programs has it
		default:
			delete(linked, c.name)
			part.Version, part.PURL = m.Version, "pkg:golang/"+escape(m.Path)+"@"+escape(m.Version)
			// The sum of a module is that of the list of its files and their sums (golang.org/x/mod/sumdb/dirhash).
			if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(raw) == sha256.Size {
				part.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(raw)}}
			}
		}
		kinds, _, err := c.read(&bytes.Buffer{}, map[string]int{})
		if err != nil {
			return nil, err
		}
		part.Ref, part.Licenses = part.PURL, licences(kinds)
		out = append(out, part)
	}
	for name := range linked {
		return nil, fmt.Errorf("a program contains %s, whose licence is not known here", name)
	}
	return out, nil
}

// parts lists the files of an asset with their checksums.
func (a asset) parts() (out []bomPart, err error) {
	text, err := os.ReadFile(a.sums)
	if err != nil {
		return nil, fmt.Errorf("read checksums: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && slices.Contains(a.bundled, words[1]) {
			out = append(out, bomPart{Type: "file", Ref: "file:" + words[1], Name: filepath.Base(words[1]), Hashes: []bomHash{{"SHA-256", words[0]}}})
		}
	}
	return out, nil
}

// licences names licences by their SPDX ids. What is in the public domain has none.
func licences(kinds []string) (out []bomLicense) {
	for _, k := range kinds {
		var l bomLicense
		if strings.Contains(k, " ") {
			l.License.Name = k
		} else {
			l.License.ID = k
		}
		out = append(out, l)
	}
	return out
}

// escape writes what a package URL does not take as it is.
func escape(text string) string { return strings.ReplaceAll(text, "+", "%2B") }

// text is the document with a serial number that follows from what is in it, so that two releases of one commit are the same.
func (b bom) text() ([]byte, error) {
	encode := func() ([]byte, error) { return json.MarshalIndent(b, "", "  ") }
	raw, err := encode()
	if err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	id := sha256.Sum256(raw)
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	if raw, err = encode(); err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	return append(raw, '\n'), nil
}
