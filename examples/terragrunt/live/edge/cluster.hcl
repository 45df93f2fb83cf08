# Another cluster: its own address, range of VMIDs and template. Its token comes from the environment in which its units are run.
locals {
  endpoint = "https://edge1.example.org:8006"
  vmids    = { min = 2000, max = 2999 } # automatic VMIDs come from here
  template = 9000
  storage  = "local-zfs"
  gateway  = "10.1.0.1"
  ssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsjKYAEI8qGZjK1JlLRFZe0ZBjR50JXu61U95pNVXRN ops@example.org"]
}
