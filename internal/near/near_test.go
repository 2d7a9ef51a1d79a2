package near

import "testing"

func TestUnknown(t *testing.T) {
	known := []string{"beijing", "shijiazhuang", "xicheng"}
	for name, want := range map[string]string{
		"shijiazhung": "there is no cluster shijiazhung; did you mean shijiazhuang?",
		"beijng":      "there is no cluster beijng; did you mean beijing?",
		"paris":       "there is no cluster paris; there are beijing, shijiazhuang, xicheng",
		"":            "there is no cluster ; there are beijing, shijiazhuang, xicheng",
	} {
		if got := Unknown("cluster", name, known).Error(); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
	for text, want := range map[string]string{
		"zone regoin": "; did you mean region?", "REGION": "; did you mean region?", "zone": "", "zone planet": "", "": "", "ab": "",
	} {
		if got := Meant(text, []string{"region", "zone"}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := Unknown("cluster", "a", nil).Error(); got != "there is no cluster a, and no other" {
		t.Error(got)
	}
}
