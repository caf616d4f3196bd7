package admin

import (
	"strings"

	"pawl.dev/cmd/internal/ui"
	"pawl.dev/services/identity"
)

// KeysCmd is `pawl keys`. Running servers reload the key file when it changes.
type KeysCmd struct {
	Keys string `name:"keys" type:"path" placeholder:"FILE" help:"The file of hashed API keys."`

	Add    KeysAddCmd    `cmd:"" group:"sub" help:"Create an API key; it is shown only once."`
	List   KeysListCmd   `cmd:"" default:"1" group:"sub" help:"List the keys."`
	Remove KeysRemoveCmd `cmd:"" group:"sub" help:"Remove a key; servers refuse it within 2 seconds."`
}

func (c *KeysCmd) open() (*identity.KeyFile, error) {
	if c.Keys == "" {
		return nil, ui.Usagef("which key file?").Then("--keys FILE or PAWL_KEYS; pawl up --keys FILE uses the same one")
	}
	file, err := identity.OpenKeyFile(c.Keys)
	if err != nil {
		return nil, ui.Errorf("%v", err)
	}
	return file, nil
}

// keyView returns a key as --json prints it.
func keyView(key identity.Key) map[string]any {
	view := map[string]any{"id": key.ID, "sub": key.Sub, "roles": key.Roles, "created": key.Created}
	if key.Note != "" {
		view["note"] = key.Note
	}
	return view
}

// KeysAddCmd is `pawl keys add`.
type KeysAddCmd struct {
	Sub  string   `arg:"" help:"Whose key: the user's id."`
	Role []string `enum:"user,operator,service" default:"user" help:"What the key may do (repeatable): ${enum}."`
	Note string   `placeholder:"TEXT" help:"What the key is for."`
}

// Run makes a key.
func (c *KeysAddCmd) Run(u *ui.UI, keys *KeysCmd) error {
	file, err := keys.open()
	if err != nil {
		return err
	}
	roles := make([]identity.Role, len(c.Role))
	for i, r := range c.Role {
		roles[i] = identity.Role(r)
	}
	token, key, err := file.Add(identity.Key{Sub: c.Sub, Roles: roles, Note: c.Note})
	if err != nil {
		return ui.Errorf("%v", err)
	}
	if u.JSON {
		view := keyView(key)
		view["token"] = token
		return u.Document(view)
	}
	u.Printf("%s\n", token)
	u.Note("key %s of %s; this token is not shown again", key.ID, key.Sub)
	return nil
}

// KeysListCmd is `pawl keys list`.
type KeysListCmd struct{}

// Run lists keys.
func (c *KeysListCmd) Run(u *ui.UI, keys *KeysCmd) error {
	file, err := keys.open()
	if err != nil {
		return err
	}
	views, t := []map[string]any{}, u.Table("ID", "USER", "ROLES", "CREATED", "NOTE")
	for _, key := range file.List() {
		views = append(views, keyView(key))
		var roles []string
		for _, r := range key.Roles {
			roles = append(roles, string(r))
		}
		t.Row(key.ID, key.Sub, strings.Join(roles, ","), key.Created.In(u.Now().Location()).Format("2006-01-02 15:04"), key.Note)
	}
	return u.List(map[string]any{"keys": views}, nil, t, "no keys; pawl keys add USER --keys "+keys.Keys+" creates one")
}

// KeysRemoveCmd is `pawl keys remove`.
type KeysRemoveCmd struct {
	ID string `arg:"" help:"The key's id, as pawl keys list shows it."`
}

// Run removes a key.
func (c *KeysRemoveCmd) Run(u *ui.UI, keys *KeysCmd) error {
	file, err := keys.open()
	if err != nil {
		return err
	}
	if err := file.Remove(c.ID); err != nil {
		return ui.Errorf("%v", err).Then("pawl keys list --keys %s", keys.Keys)
	}
	return u.Result(map[string]string{"removed": c.ID}, nil, "key %s is removed", c.ID)
}
