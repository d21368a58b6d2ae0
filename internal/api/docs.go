package api

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The page that shows the description, with Swagger UI as it was published: nothing is loaded from another host.
//
//go:embed docs
var docFiles embed.FS

// registerDocs serves the page at /api/docs and its files below it.
func registerDocs(routes *http.ServeMux) {
	for path, file := range map[string]string{
		"/api/docs/start.js":             "start.js",
		"/api/docs/theme.js":             "theme.js",
		"/api/docs/page.css":             "page.css",
		"/api/docs/swagger-ui.css":       "swagger-ui.css",
		"/api/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js",
	} {
		// Most installations never open the page, so it is read on demand.
		load := sync.OnceValues(func() (document []byte, tag string) {
			content, err := docFiles.ReadFile("docs/" + file)
			if err != nil {
				panic(fmt.Sprintf("read embedded %s: %v", file, err)) // it is compiled in
			}
			sum := sha256.Sum256(content)
			return content, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
		})
		routes.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			content, tag := load()
			w.Header().Set("ETag", tag)
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(content))
		})
	}
	routes.HandleFunc("GET /api/docs", docsPage)
	routes.Handle("GET /api/docs/{$}", http.RedirectHandler("/api/docs", http.StatusMovedPermanently))
}

// docsPage is the page itself, in the colours that the visitor chose for the other pages.
func docsPage(w http.ResponseWriter, r *http.Request) {
	content, err := docFiles.ReadFile("docs/index.html")
	if err != nil {
		panic(fmt.Sprintf("read embedded index.html: %v", err)) // it is compiled in
	}
	if cookie, err := r.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		content = bytes.Replace(content, []byte(`data-theme="system"`), []byte(`data-theme="`+cookie.Value+`"`), 1)
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(content) // the client may have disconnected
}

// themeCookie holds the colours that the visitor chose; the pages set it.
const themeCookie = "claudeops_theme"
