package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var assetFiles embed.FS

type asset struct {
	kind    string
	version string
	content []byte
}

// assetSet holds the static files. Their URLs carry a version, so browsers can cache them.
type assetSet map[string]asset

func loadAssets() assetSet {
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	set := assetSet{}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic("read embedded assets: " + err.Error()) // they are part of the program
	}
	for _, entry := range entries {
		kind := kinds[path.Ext(entry.Name())]
		if kind == "" {
			continue // not served, for example VENDORED.md
		}
		content, err := assetFiles.ReadFile(path.Join("assets", entry.Name()))
		if err != nil {
			panic("read embedded asset: " + err.Error())
		}
		sum := sha256.Sum256(content)
		set[entry.Name()] = asset{
			kind:    kind,
			version: hex.EncodeToString(sum[:6]),
			content: content,
		}
	}
	return set
}

// path is the URL of a file.
func (a assetSet) path(name string) string { return "/assets/" + name + "?v=" + a[name].version }

func (a assetSet) serve(w http.ResponseWriter, r *http.Request) {
	file, found := a[r.PathValue("file")]
	if !found {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	file.write(w, r)
}

func (a assetSet) favicon(w http.ResponseWriter, r *http.Request) { a["favicon.svg"].write(w, r) }

func (f asset) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("ETag", `"`+f.version+`"`)
	if r.URL.Query().Get("v") == f.version {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
