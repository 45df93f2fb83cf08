variable "name" {
  description = "Name of the VM and of its host."
  type        = string
}

variable "description" {
  description = "What the VM is for."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the VM."
  type        = set(string)
  default     = []
}

variable "template" {
  description = "VMID of the template."
  type        = number
}

variable "storage" {
  description = "Storage of the disks."
  type        = string
}

variable "cores" {
  description = "Processors."
  type        = number
  default     = 1
}

variable "memory" {
  description = "Memory in MiB."
  type        = number
  default     = 1024
}

variable "disk" {
  description = "Size of the system disk."
  type        = string
  default     = "8G"
}

variable "address" {
  description = "IPv4 address with prefix length."
  type        = string
}

variable "gateway" {
  description = "IPv4 gateway, which is the name server too."
  type        = string
}

variable "ssh_keys" {
  description = "Public keys of the user ops."
  type        = list(string)
}
