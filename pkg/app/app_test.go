package app

import (
	"strings"
	"testing"

	"amnesia/pkg/config"
)

// TestAppService: whom users wait for after a failure does not depend on the order of the file.
func TestAppService(t *testing.T) {
	const file = `version: 1
target:
  url: http://127.0.0.1:8080
  engine: docker
  project: shop
  services:
    redis: {health: "tcp://127.0.0.1:6379"}
    SERVICE: {health: "http://127.0.0.1:8080/healthz"}
sessions:
  script:
    tell:
      - fill: {selector: "#message", text: "{{.Memory}}"}
      - click: "#send"
      - acknowledged: {selector: .answer}
    recall:
      - goto: /chat
      - read: {selector: .message}
views:
  VIEW
`
	const store = `redis: {url: "redis://127.0.0.1:6379/0", key: "chat:{user}"}`
	for _, c := range []struct{ service, view, want string }{
		{"frontend", "page: {service: frontend}", "frontend"},
		{"app", "page: {}", "app"},
		{"app", store, "app"},
		{"frontend", store, "redis"},
	} {
		text := strings.NewReplacer("SERVICE", c.service, "VIEW", c.view).Replace(file)
		cfg, err := config.Parse([]config.Source{{Name: "amnesia.yaml", Data: []byte(text)}}, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if got := appService(cfg); got != c.want {
			t.Errorf("with the service %s and the view %s: %s, want %s", c.service, c.view, got, c.want)
		}
	}
}
