# What is there: `terraform query`
list "proxmox_vm" "templates" {
  provider = proxmox

  config {
    template = true
  }
}

# What is to be taken over: `terraform query -generate-config-out=web.tf`
list "proxmox_vm" "web" {
  provider = proxmox
  limit    = 500 # Terraform's default is 100

  config {
    name     = "web-*"
    pool     = "web"
    template = false
  }
}
