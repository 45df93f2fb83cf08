package main

import (
	"maps"
	"testing"
)

func fake(variables map[string]string) environment {
	return environment{
		get: func(name string) string { return variables[name] },
		set: func(name, value string) error { variables[name] = value; return nil },
	}
}

func TestQuieten(t *testing.T) {
	t.Parallel()
	all := func(level string) map[string]string {
		return map[string]string{"TF_LOG_PROVIDER_PROXMOX": level, "TF_LOG_SDK": level, "TF_LOG_SDK_FRAMEWORK": level, "TF_LOG_SDK_PROTO": level}
	}
	for name, c := range map[string]struct{ set, added map[string]string }{
		"nothing is asked for":      {nil, all("OFF")},
		"a level for everything":    {map[string]string{"TF_LOG": "warn"}, all("WARN")},
		"everything":                {map[string]string{"TF_LOG": "TRACE"}, nil},
		"everything as JSON":        {map[string]string{"TF_LOG": "json"}, nil},
		"no level at all":           {map[string]string{"TF_LOG": "yes"}, nil},
		"providers before the rest": {map[string]string{"TF_LOG": "TRACE", "TF_LOG_PROVIDER": "ERROR"}, all("ERROR")},
		"Terraform's core only":     {map[string]string{"TF_LOG_CORE": "TRACE"}, all("OFF")},
		"the libraries":             {map[string]string{"TF_LOG_SDK": "DEBUG"}, map[string]string{"TF_LOG_PROVIDER_PROXMOX": "OFF"}},
		"one library": {map[string]string{"TF_LOG_SDK_PROTO": "TRACE"},
			map[string]string{"TF_LOG_PROVIDER_PROXMOX": "OFF", "TF_LOG_SDK": "OFF", "TF_LOG_SDK_FRAMEWORK": "OFF"}},
		"this provider": {map[string]string{"TF_LOG_PROVIDER_PROXMOX": "INFO"},
			map[string]string{"TF_LOG_SDK": "OFF", "TF_LOG_SDK_FRAMEWORK": "OFF", "TF_LOG_SDK_PROTO": "OFF"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := map[string]string{}, map[string]string{}
			maps.Copy(got, c.set)
			maps.Copy(want, c.set)
			maps.Copy(want, c.added)
			if err := quieten(fake(got)); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  map[string]string
		want bool
	}{
		"nothing is asked for":     {nil, false},
		"everything":               {map[string]string{"TF_LOG": "TRACE"}, true},
		"as JSON":                  {map[string]string{"TF_LOG": "JSON"}, true},
		"summaries":                {map[string]string{"TF_LOG_PROVIDER": "info"}, true},
		"warnings":                 {map[string]string{"TF_LOG": "WARN"}, false},
		"Terraform's own":          {map[string]string{"TF_LOG_CORE": "TRACE"}, false},
		"everything but ours":      {map[string]string{"TF_LOG": "TRACE", "TF_LOG_PROVIDER_PROXMOX": "off"}, false},
		"nothing of providers":     {map[string]string{"TF_LOG": "TRACE", "TF_LOG_PROVIDER": "off"}, false},
		"ours, and less of others": {map[string]string{"TF_LOG": "TRACE", "TF_LOG_PROVIDER_PROXMOX": "INFO"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isLogged(fake(c.set)); got != c.want {
				t.Errorf("%t", got)
			}
			if isSilent(fake(c.set)) && c.want {
				t.Error("the output is not read")
			}
		})
	}
}
