package config

import (
	"testing"
)

func environment(name string) string {
	return map[string]string{
		"CHATAPP_API_KEY": "sesame-api", "CHATAPP_PASSWORD": "sesame-pw", "CHATAPP_TOKEN": "sesame-token",
	}[name]
}

func TestFull(t *testing.T) {
	c, err := Load("testdata/full.yaml", environment)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
}
